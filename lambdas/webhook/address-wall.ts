// The address wall: which URLs a webhook may have, and which addresses may be dialled for them.
import { promises as dns } from 'node:dns';
import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';

/** A range that is opened although it is not public. For receivers on the same machine as local AWS. */
export type TrustedRange = ReturnType<typeof ipaddr.parseCIDR>;

/** All addresses of a hostname, IPv4 and IPv6, as text. Rejects with a `code` such as `ENOTFOUND`. */
export type Lookup = (hostname: string) => Promise<readonly string[]>;

/** The URL cannot be a webhook's. The message names the part that is wrong and what to do; it never shows path or query. */
export class WebhookUrlError extends Error {
  override readonly name = 'WebhookUrlError';
  readonly code = 'URL_REFUSED';
}

/** The host stands for an address that must not be dialled. */
export class AddressBlockedError extends Error {
  override readonly name = 'AddressBlockedError';
  readonly code = 'ADDRESS_BLOCKED';
}

/** `WEBHOOK_TRUSTED_CIDRS` holds something that is not a range. */
export class TrustedCidrError extends Error {
  override readonly name = 'TrustedCidrError';
}

const urlLimit = 2048;

/** Global unicast, IANA "Internet Protocol Version 6 Address Space": all other IPv6 space is special, `::/96` too. */
const globalUnicast = ipaddr.parseCIDR('2000::/3');

/**
 * The ranges in the value of `WEBHOOK_TRUSTED_CIDRS`. Whoever starts with a list that is not empty should warn of it.
 * @param text ranges in CIDR notation, separated by commas; absent or empty: none
 * @throws {TrustedCidrError} naming the entry that is not a range
 */
export function parseTrustedCidrs(text: string | undefined): TrustedRange[] {
  const entries = (text ?? '').split(',').map((entry) => entry.trim());
  return entries.filter((entry) => entry !== '').map(parseCidr);
}

function parseCidr(entry: string): TrustedRange {
  const [address = '', length, ...rest] = entry.split('/');
  // ipaddr.js also reads octal, hexadecimal and shortened addresses, which nobody means in a list of ranges.
  const valid = isIP(address) !== 0 && /^\d+$/.test(length ?? '') && rest.length === 0 && ipaddr.isValidCIDR(entry);
  if (!valid) {
    throw new TrustedCidrError(
      `WEBHOOK_TRUSTED_CIDRS: got ${JSON.stringify(entry)}; use ranges such as 127.0.0.0/8,::1/128, separated by commas`,
    );
  }
  return ipaddr.parseCIDR(entry);
}

/**
 * The URL of a webhook, checked as far as it can be without resolving its host: https, no user or password, and no
 * address that must not be dialled. Any port is allowed: what speaks TLS at a public address is the owner's to choose.
 * @param text the URL; hosts written in decimal, octal or hexadecimal are read as the addresses they are
 * @param trusted ranges that are opened
 * @returns the URL in normal form; store its `href`
 * @throws {WebhookUrlError} what is wrong and what to do
 * @throws {AddressBlockedError} when the host is an address that must not be dialled
 */
export function checkWebhookUrl(text: string, trusted: readonly TrustedRange[] = []): URL {
  const refuse = (message: string): WebhookUrlError => new WebhookUrlError(`url: ${message}`);
  if (text.length > urlLimit) throw refuse(`got ${text.length} characters; use at most ${urlLimit}`);
  if (!URL.canParse(text)) throw refuse('got something that is no URL; use https://host/path');
  const url = new URL(text);
  if (url.protocol !== 'https:') throw refuse(`got the scheme ${url.protocol}//; use https://`);
  if (url.username !== '' || url.password !== '') {
    throw refuse('got a user or a password before the host; remove it, webhooks are signed instead');
  }
  if (url.port === '0') throw refuse('got port 0; use a port from 1 to 65535, or none for 443');
  if (url.hostname.endsWith('.')) throw refuse('got a host that ends in a dot; remove the dot');
  const host = hostOf(url);
  if (isIP(host) !== 0) refuseBlocked(host, host, trusted);
  return url;
}

/** The host of a URL as it is dialled and as certificates name it: an IPv6 address without its brackets. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '');
}

/**
 * The addresses that may be dialled for a host: it is resolved once, and every address must pass, so that no second
 * answer of a name server and no happy choice between addresses leads elsewhere.
 * @throws {AddressBlockedError} when one of the addresses must not be dialled
 */
export async function admitHost(host: string, trusted: readonly TrustedRange[], lookup: Lookup): Promise<string[]> {
  const addresses = isIP(host) === 0 ? [...(await lookup(host))] : [host];
  if (addresses.length === 0) throw Object.assign(new Error(`no address for ${host}`), { code: 'ENOTFOUND' });
  for (const address of addresses) refuseBlocked(address, host, trusted);
  return addresses;
}

/** The lookup of the operating system. */
export const systemLookup: Lookup = async (hostname) => {
  const found = await dns.lookup(hostname, { all: true });
  return found.map(({ address }) => address);
};

function refuseBlocked(address: string, host: string, trusted: readonly TrustedRange[]): void {
  const range = rangeOf(address);
  if (range === 'unicast' || isTrusted(address, trusted)) return;
  const got = address === host ? address : `${host}, which resolves to ${address}`;
  throw new AddressBlockedError(
    `url: got ${got} (${range}); use a host whose every address is public. On one machine, WEBHOOK_TRUSTED_CIDRS opens ranges`,
  );
}

/** The name of the special range an address lies in, `unicast` when it is plainly public. */
function rangeOf(address: string): string {
  if (isIP(address) === 0 || address.includes('%')) return 'no plain address';
  const parsed = ipaddr.parse(address);
  const range = parsed.range();
  return range === 'unicast' && parsed instanceof ipaddr.IPv6 && !parsed.match(globalUnicast) ? 'reserved' : range;
}

function isTrusted(address: string, trusted: readonly TrustedRange[]): boolean {
  if (isIP(address) === 0 || address.includes('%')) return false;
  const parsed = ipaddr.parse(address);
  return trusted.some(([network, bits]) => network.kind() === parsed.kind() && parsed.match(network, bits));
}
