import { parseConnectionUrl } from './values.ts';

/** The variables of proxies. */
interface ProxySettings {
  readonly HTTP_PROXY?: string | undefined;
  readonly HTTPS_PROXY?: string | undefined;
  readonly NO_PROXY?: string | undefined;
}

/** A host of NO_PROXY. `below`: only the hosts below it. */
interface DirectHost {
  readonly name: string;
  /** 0: every port. */
  readonly port: number;
  readonly below: boolean;
}

const splitEntries = (text: string) => text.split(/[,\s]+/).filter(Boolean);

/**
 * Finds entries of NO_PROXY that the HTTP library would ignore without a word. They matter only if
 * there is a proxy: a machine may have NO_PROXY for other programs.
 */
export function findProxyProblems({
  HTTP_PROXY,
  HTTPS_PROXY,
  NO_PROXY = '',
}: ProxySettings): string[] {
  if (HTTP_PROXY === undefined && HTTPS_PROXY === undefined) return [];

  return splitEntries(NO_PROXY)
    .filter((entry) => parseDirectHost(entry) === null)
    .map(
      (entry) =>
        `NO_PROXY: ${entry.slice(0, 100)} is not supported; name hosts such as host.example, ` +
        '.example.com, *.example.com, 10.0.0.7, [::1] or host.example:8080, or * for all. ' +
        'Networks such as 10.0.0.0/8 are not possible',
    );
}

/** Reads an entry of NO_PROXY as undici does. Returns null if it would never fit a host. */
function parseDirectHost(entry: string): DirectHost | null {
  const [, prefix = '', rest = ''] = /^(\*\.|\.)?(.*)$/.exec(entry) ?? [];
  const { host, port } = splitPort(rest);

  if ((host === '*' && prefix !== '') || !/^\d{0,5}$/.test(port) || Number(port) > 65_535)
    return null;

  const lower = host.toLowerCase();
  const name = lower.length > 1 && lower.endsWith('.') ? lower.slice(0, -1) : lower;
  return isSpelledAsInUrl(name) ? { name, port: Number(port), below: prefix === '*.' } : null;
}

/**
 * Divides an entry into host and port; the port is empty if there is none. An IPv6 address with a
 * port has brackets.
 */
function splitPort(text: string): { readonly host: string; readonly port: string } {
  const end = text.indexOf(']');
  if (text.startsWith('[') && end > 0 && /^(:|$)/.test(text.slice(end + 1)))
    return { host: text.slice(1, end), port: text.slice(end + 2) };

  const [host = '', port = '', ...more] = text.split(':');
  return more.length > 0 ? { host: text, port: '' } : { host, port };
}

/** Returns true for `*`, and for a host as a URL spells it: 127.1 would never fit 127.0.0.1. */
function isSpelledAsInUrl(name: string): boolean {
  if (name === '*') return true;
  const asUrl = `http://${name.includes(':') ? `[${name}]` : name}`;
  return (
    URL.canParse(asUrl) &&
    new URL(asUrl).hostname.replace(/[[\]]/g, '') === name &&
    !name.includes('*')
  );
}

/**
 * Returns the proxy that requests to an address go by, without its password; null if they go
 * direct.
 */
export function findProxy(
  settings: ProxySettings,
  { protocol, hostname, port }: URL,
): string | null {
  const { HTTP_PROXY: http, HTTPS_PROXY: https = http, NO_PROXY = '' } = settings;
  const isTls = protocol === 'https:';
  const proxy = isTls ? https : http;

  const target = {
    host: hostname.replace(/^\[(.*)\]$/, '$1').replace(/(?<=.)\.$/, ''),
    port: Number(port),
  };
  target.port ||= isTls ? 443 : 80;

  const isDirect = splitEntries(NO_PROXY).some((entry) => {
    const direct = parseDirectHost(entry);
    if (direct === null || (direct.port !== 0 && direct.port !== target.port)) return false;
    const isSame = direct.name === '*' || (!direct.below && target.host === direct.name);
    return isSame || target.host.endsWith(`.${direct.name}`);
  });
  return proxy === undefined || isDirect ? null : (parseConnectionUrl(proxy)?.host ?? null);
}
