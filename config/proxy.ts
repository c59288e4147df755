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
  readonly port: number | null;
  readonly below: boolean;
}

const splitEntries = (text: string) => text.split(/[,\s]+/).filter(Boolean);

/**
 * Finds entries of NO_PROXY that the HTTP library would ignore without a word. They matter only if there is a proxy: a
 * machine may have NO_PROXY for other programs.
 */
export function findProxyProblems({ HTTP_PROXY, HTTPS_PROXY, NO_PROXY = '' }: ProxySettings): string[] {
  if (HTTP_PROXY === undefined && HTTPS_PROXY === undefined) return [];
  return splitEntries(NO_PROXY)
    .filter((entry) => parseDirectHost(entry) === null)
    .map(
      (entry) =>
        `NO_PROXY: ${entry.slice(0, 100)} is not supported; name hosts such as host.example, .example.com, *.example.com,` +
        ' 10.0.0.7, [::1] or host.example:8080, or * for all. Networks such as 10.0.0.0/8 are not possible',
    );
}

/** Reads an entry of NO_PROXY as undici does. Returns null if it would never fit a host. */
function parseDirectHost(entry: string): DirectHost | null {
  const match = /^(\*\.|\.)?(\*|\[[\da-f:.]+\]|[\da-f:]*:[\da-f:.]*:[\da-f:.]*|[^:/*[\]@?#]+)(?::(\d{1,5}))?$/i.exec(
    entry,
  );
  const [, prefix = '', host = '', port] = match ?? [];
  if (match === null || (host === '*' && prefix !== '') || Number(port ?? 1) > 65_535) return null;
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  const name = bare.length > 1 ? bare.replace(/\.$/, '') : bare;
  const isIpv6 = name.includes(':');
  const asUrl = `http://${isIpv6 ? `[${name}]` : name}`;
  // A host is compared as a URL spells it: 127.1 would never fit 127.0.0.1.
  const isSpelled = name === '*' || (URL.canParse(asUrl) && new URL(asUrl).hostname.replace(/[[\]]/g, '') === name);
  return isSpelled ? { name, port: port === undefined ? null : Number(port), below: prefix === '*.' } : null;
}

/** Returns the proxy that requests to an address go by, without its password; null if they go direct. */
export function findProxy(settings: ProxySettings, { protocol, hostname, port }: URL): string | null {
  const { HTTP_PROXY: http, HTTPS_PROXY: https = http, NO_PROXY = '' } = settings;
  const isTls = protocol === 'https:';
  const proxy = isTls ? https : http;
  const target = { host: hostname.replace(/^\[(.*)\]$/, '$1').replace(/(?<=.)\.$/, ''), port: Number(port) };
  target.port ||= isTls ? 443 : 80;

  const isDirect = splitEntries(NO_PROXY).some((entry) => {
    const direct = parseDirectHost(entry);
    if (direct === null || (direct.port !== null && direct.port !== 0 && direct.port !== target.port)) return false;
    const isSame = direct.name === '*' || (!direct.below && target.host === direct.name);
    return isSame || target.host.endsWith(`.${direct.name}`);
  });
  return proxy === undefined || isDirect ? null : (parseConnectionUrl(proxy)?.host ?? null);
}
