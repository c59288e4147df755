import { z } from 'zod';
import { parseSpanMs } from './schedules.ts';

/** A whole number in a range. */
export function wholeNumber(min: number, max: number) {
  const words = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,10}$/, words)
    .transform(Number)
    .pipe(z.number().min(min, words).max(max, words));
}

/** A span of time, in milliseconds. */
export const span = z.string().transform((text, context) => {
  const ms = parseSpanMs(text);
  if (ms !== null) return ms;
  context.addIssue({
    code: 'custom',
    message: 'must be a span such as 30s, 2m, 6h or 3d, and 3650d at most',
  });
  return z.NEVER;
});

/** true or false. */
export const yesNo = z
  .enum(['true', 'false', '1', '0'])
  .transform((text) => text === 'true' || text === '1');

const unreadableUrl =
  'is not a URL; percent-encode special characters of its password ' +
  '(%2F for /, %23 for #, %3F for ?, %40 for @)';

const connectionUrl = (scheme: RegExp, names: string) =>
  z
    .string()
    .regex(scheme, `must begin with ${names}`)
    .refine((text) => parseConnectionUrl(text)?.hash === '', unreadableUrl);

/** Matches a Postgres URL with several hosts, which only libpq understands. */
const severalHosts = /^postgres(?:ql)?:\/\/(?:[^@/]*@)?[^@/?]*,|[?&]host=[^&]*(?:,|%2c)/i;

export const databaseUrl = z
  .string()
  .refine((text) => !severalHosts.test(text), {
    message:
      'names several hosts; use one address that always leads to the primary: ' +
      'the read-write endpoint or service of the cluster, HAProxy, pgbouncer or a virtual IP',
    abort: true,
  })
  .pipe(connectionUrl(/^postgres(ql)?:\/\//, 'postgres:// or postgresql://'));
export const redisUrl = connectionUrl(/^rediss?:\/\//, 'redis:// or rediss://');
export const proxyUrl = connectionUrl(/^https?:\/\//, 'http:// or https://');

/** URL that alerts are posted to. Its path may be secret, so no message may show it. */
export const webhookUrl = z
  .string()
  .regex(/^https?:\/\//, 'must begin with http:// or https://')
  .refine((text) => URL.canParse(text) && new URL(text).hash === '', 'is not a URL')
  .refine(
    (text) => !URL.canParse(text) || new URL(text).username + new URL(text).password === '',
    'must not hold a user name or password',
  );

/** Secret of Standard Webhooks: 24 to 64 bytes as base64, after whsec_. */
export const webhookSecret = z
  .string()
  .regex(
    /^whsec_(?=.{32,88}$)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/,
    'must be whsec_ and 24 to 64 bytes as base64, from: echo "whsec_$(openssl rand -base64 32)"',
  );

/**
 * Parses the URL of a server. Returns null if it is not a URL. A Postgres URL without a host (a
 * socket) gets localhost.
 */
export function parseConnectionUrl(text: string): URL | null {
  const withHost = text.replace(/^([a-z]+:\/\/(?:[^@/]*@)?)(?=\/)/, '$1localhost');
  return URL.canParse(withHost) ? new URL(withHost) : null;
}
