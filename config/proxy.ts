/** The variables of proxies. */
interface ProxySettings {
  readonly HTTP_PROXY?: string | undefined;
  readonly HTTPS_PROXY?: string | undefined;
  readonly NO_PROXY?: string | undefined;
}

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

  const entries = NO_PROXY.split(/[,\s]+/).filter(Boolean);
  return entries
    .filter((entry) => !isUsable(entry))
    .map(
      (entry) =>
        `NO_PROXY: ${entry.slice(0, 100)} is not supported; name hosts such as host.example, ` +
        '.example.com, *.example.com, 10.0.0.7, [::1] or host.example:8080, or * for all. ' +
        'Networks such as 10.0.0.0/8 are not possible',
    );
}

/**
 * Returns true if an entry can fit a host: it is `*`, or spells the host as a URL does. 127.1 would
 * never fit 127.0.0.1.
 */
function isUsable(entry: string): boolean {
  const text = entry.toLowerCase().replace(/^\*?\./, '');
  const isIpv6 = /^[^[\]]*:[^[\]]*:/.test(text);

  const [address = '', host = ''] =
    /^(\[[^\]]*\]|[^:]*)(?::\d{1,5})?$/.exec(isIpv6 ? `[${text}]` : text) ?? [];
  if (host === '*') return URL.canParse(`http://x${address.slice(1)}`) && text === entry;
  if (host.includes('*') || !URL.canParse(`http://${address}`)) return false;
  return new URL(`http://${host}`).hostname === host;
}
