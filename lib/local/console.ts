// The local console: the widget's own pages in a browser, on this machine alone.
import { randomBytes } from 'node:crypto';
import { widgetAlias, widgetFunction } from '../../lambdas/widget/contract.ts';
import { type Service, type ServiceAnswer, serve } from './http-service.ts';
import type { LambdaHost } from './lambda-host.ts';

/** How the console is served. */
export interface ConsoleOptions {
  /** Runs the function `widget`. */
  readonly host: Pick<LambdaHost, 'invoke'>;
  /** @default 0, any free port */
  readonly port?: number;
}

/**
 * Serves `/`, and `/?reminder=<id or key>` with the verdict on one. It only reads. A request by any other name than this
 * machine's is refused, so that no page of elsewhere reads it by a name that leads here; the pages run no script.
 */
export async function startConsole({ host, port = 0 }: ConsoleOptions): Promise<Service> {
  const service = await serve({ port }, async ({ method, path, query, headers }) => {
    const own = new URL(service.endpoint).port;
    if (![`127.0.0.1:${own}`, `localhost:${own}`].includes(headers.host ?? '')) {
      return plain(421, `This is the console of local AWS: open ${service.endpoint}/`);
    }
    if (method !== 'GET') return plain(405, 'The console only reads: use GET', { allow: 'GET' });
    if (path !== '/') return plain(404, `There is nothing here: open ${service.endpoint}/`);
    const request = { reminder: query.get('reminder') ?? '', ...(query.has('count') ? { count: true } : {}) };
    const answer = await host.invoke(widgetFunction.name, JSON.stringify(request), widgetAlias);
    if (answer.functionError) return plain(502, `The function ${widgetFunction.name} failed: its log says why`);
    return document(JSON.parse(answer.payload) as string);
  });
  return service;
}

const plain = (status: number, body: string, headers: Record<string, string> = {}): ServiceAnswer => ({
  ...{ status, body: `${body}\n` },
  headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff', ...headers },
});

function document(widget: string): ServiceAnswer {
  // No style but this document's two may apply: one that somebody put into a text would have no nonce.
  const nonce = randomBytes(16).toString('base64');
  const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Reminder Ledger on local AWS</title>
<link rel="icon" href="data:,">
<style nonce="${nonce}">
body { color-scheme: light dark; color: light-dark(#16191f, #e9ebed); background: light-dark(#fff, #161d26);
  font: 14px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 1100px; }
h1 { font-size: 20px; margin: 16px 12px 0; }
</style>
</head>
<body>
<main>
<h1>Reminder Ledger on local AWS</h1>
${browserPage(widget).replace('<style>', `<style nonce="${nonce}">`)}
</main>
</body>
</html>
`;
  return {
    body,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': `default-src 'none'; style-src 'nonce-${nonce}'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
    },
  };
}

/** A button of the widget with its action. Text in it holds no `<`, or it would not be text. */
const button = /<button type="button" class="([^"]*)">([^<]*)<\/button><cwdb-action [^>]*>([^<]*)<\/cwdb-action>/g;

/** `<cwdb-action>` means something to CloudWatch alone: here its search submits the form, and its other buttons are links. */
export function browserPage(widget: string): string {
  return widget.replaceAll(button, (_, look: string, label: string, action: string) => {
    const { search, ...fields } = JSON.parse(action.replaceAll('&quot;', '"')) as Record<string, unknown>;
    if (search === true) return `<button class="${look}">${label}</button>`;
    const query = new URLSearchParams(
      Object.entries(fields).map(([name, value]): [string, string] => [name, String(value)]),
    );
    return `<a class="${look}" href="?${query.toString().replaceAll('&', '&amp;')}">${label}</a>`;
  });
}
