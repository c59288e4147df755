import { BlockList, isIP } from 'node:net';
import { z } from 'zod';

/** A token of the admin server. */
export const adminTokenSchema = z
  .string()
  .min(32, 'must have at least 32 characters; make one with: openssl rand -base64 32')
  .refine(
    (token) => token.trim() === '' || token.trim() === token,
    'must not begin or end with a blank: a header loses it',
  );

/**
 * The path that a reverse proxy puts before every path of the admin server, such as `/name/name`. A
 * last slash is removed.
 */
export const basePathSchema = z
  .string()
  .max(200)
  .regex(/^\/(?:[\w.~-]+(?:\/[\w.~-]+)*\/?)?$/, 'must be a path such as /fulfilment')
  .transform((path) => path.replace(/\/$/, ''));

/** The address of the pages as people reach them, without its last slash. */
export const publicUrlSchema = z
  .url({ protocol: /^https?$/, error: 'must be an address such as https://erp.example/fulfilment' })
  .max(500)
  .refine((url) => !/[?#@]/.test(url), 'must have no user, query or fragment')
  .transform((url) => url.replace(/\/$/, ''));

/** The name of a request header. */
export const headerNameSchema = z
  .string()
  .regex(/^[A-Za-z0-9-]{1,100}$/, 'must be the name of a header, such as X-Forwarded-User')
  .transform((name) => name.toLowerCase());

/** Returns true if an address is that of a trusted proxy. */
export type TrustedProxies = (address: string | undefined) => boolean;

const addressOrNetwork = z.union([z.ipv4(), z.ipv6(), z.cidrv4(), z.cidrv6()]);

/** Addresses and networks, separated by commas: `127.0.0.1, 10.0.0.0/8, ::1`. */
export const trustedProxiesSchema = z.string().transform((text, context): TrustedProxies => {
  const list = new BlockList();

  for (const entry of text.split(',').map((part) => part.trim())) {
    if (!addressOrNetwork.safeParse(entry).success) {
      context.addIssue(
        `${entry || 'an empty entry'} is not an address or a network such as 10.0.0.0/8`,
      );
      return z.NEVER;
    }

    const [address = '', prefix] = entry.split('/');
    const [family, wholePrefix] =
      isIP(address) === 6 ? ['ipv6' as const, 128] : ['ipv4' as const, 32];
    list.addSubnet(address, prefix === undefined ? wholePrefix : Number(prefix), family);
  }

  // A server that listens on IPv6 writes IPv4 addresses with this prefix.
  return (address = '') => {
    const plain = address.replace(/^::ffff:(?=\d+\.)/, '');
    return isIP(plain) !== 0 && list.check(plain, isIP(plain) === 6 ? 'ipv6' : 'ipv4');
  };
});

/** Returns the problems of the variables of the admin server together. */
export function findAdminProblems(env: Readonly<Record<string, string | undefined>>): string[] {
  const { ADMIN_HOST: host = '127.0.0.1', ADMIN_TOKEN: token, ADMIN_VIEWER_TOKEN: viewer } = env;
  const { ADMIN_TRUSTED_PROXIES: proxies, ADMIN_USER_HEADER: header } = env;

  const rules: [boolean, string][] = [
    [
      token === undefined && !isLoopback(host),
      'ADMIN_HOST: other machines could reach this address, which requires ADMIN_TOKEN; ' +
        'set it, or use 127.0.0.1',
    ],
    [
      viewer !== undefined && token === undefined,
      'ADMIN_VIEWER_TOKEN: requires ADMIN_TOKEN, too; ' +
        'without it everybody on this machine may do everything',
    ],
    [viewer !== undefined && viewer === token, 'ADMIN_VIEWER_TOKEN: must differ from ADMIN_TOKEN'],
    [
      proxies !== undefined && token === undefined,
      'ADMIN_TRUSTED_PROXIES: requires ADMIN_TOKEN; ' +
        'without it any page that a browser of this machine shows could act',
    ],
    [
      header !== undefined && proxies === undefined,
      'ADMIN_USER_HEADER: requires ADMIN_TRUSTED_PROXIES; ' +
        'without it anybody could send that header',
    ],
  ];
  return rules.flatMap(([isBroken, problem]) => (isBroken ? [problem] : []));
}

/** Returns true if only this machine can reach a server that listens on `host`. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
