import { z } from 'zod';
import { parseSpanMs } from './schedules.ts';

/** A whole number in a range. */
export const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,10}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(min).max(max));
/** A span of time, in milliseconds. */
export const span = z.string().transform((text, context) => {
  const ms = parseSpanMs(text);
  if (ms !== null) return ms;
  context.addIssue({ code: 'custom', message: 'must be a span such as 30s, 2m, 6h or 3d' });
  return z.NEVER;
});
/** A share from 0 to 1. */
export const share = z
  .string()
  .regex(/^(?:\d+|\d*\.\d+)$/, 'must be a number from 0 to 1')
  .transform(Number)
  .pipe(z.number().min(0).max(1));
/** true or false. */
export const yesNo = z.enum(['true', 'false', '1', '0']).transform((text) => text === 'true' || text === '1');
const unreadableUrl =
  'is not a URL; percent-encode special characters of its password (%2F for /, %23 for #, %3F for ?, %40 for @)';
const isUrl = (text: string) => {
  const url = parseConnectionUrl(text);
  return url !== null && url.hash === '';
};
/** URL of Postgres. */
export const databaseUrl = z
  .string()
  .regex(/^postgres(ql)?:\/\//, 'must begin with postgres:// or postgresql://')
  .refine(isUrl, unreadableUrl);
/** URL of Redis. */
export const redisUrl = z
  .string()
  .regex(/^rediss?:\/\//, 'must begin with redis:// or rediss://')
  .refine(isUrl, unreadableUrl);

/** URL of a proxy. */
export const proxyUrl = z
  .string()
  .regex(/^https?:\/\//, 'must begin with http:// or https://')
  .refine(isUrl, unreadableUrl);

/**
 * Parses the URL of a server. Returns null if it is not a URL. A Postgres URL without a host (a socket) gets localhost.
 */
export function parseConnectionUrl(text: string): URL | null {
  const withHost = text.replace(/^([a-z]+:\/\/(?:[^@/]*@)?)(?=\/)/, '$1localhost');
  return URL.canParse(withHost) ? new URL(withHost) : null;
}
