// Preloaded into the processes of functions: their wall clock is wrong by CLOCK_SKEW_MS, their monotonic clock is right.
const skewMs = Number(process.env.CLOCK_SKEW_MS);
const RealDate = Date;
const now = () => RealDate.now() + skewMs;

globalThis.Date = new Proxy(RealDate, {
  // Without arguments a Date is the present instant; with them it is whatever they say.
  construct: (target, given, newTarget) => Reflect.construct(target, given.length === 0 ? [now()] : given, newTarget),
  apply: () => new RealDate(now()).toString(),
  get: (target, name, receiver) => (name === 'now' ? now : Reflect.get(target, name, receiver)),
});
