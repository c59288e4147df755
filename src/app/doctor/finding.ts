import { describeError } from '../../core/errors.ts';
import { TlsError } from '../../core/tls-error.ts';

/** The result of one check. */
export interface Finding {
  /** Name of the check, in a few words. */
  readonly check: string;
  readonly state: 'ok' | 'warn' | 'fail';
  readonly found: string;
  /** What to do; null if nothing needs to be done. */
  readonly remedy: string | null;
}

export const ok = (check: string, found: string): Finding => ({ check, state: 'ok', found, remedy: null });
export const warn = (check: string, found: string, remedy: string): Finding => ({
  check,
  state: 'warn',
  found,
  remedy,
});
export const fail = (check: string, found: string, remedy: string): Finding => ({
  check,
  state: 'fail',
  found,
  remedy,
});

/**
 * Returns the findings of `look`. If `look` fails, its error becomes the finding, with `remedy`, or with the remedy of
 * an error of TLS.
 */
export async function runCheck(
  check: string,
  remedy: string,
  look: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await look();
  } catch (error) {
    return [
      error instanceof TlsError ? fail(check, error.found, error.remedy) : fail(check, describeError(error), remedy),
    ];
  }
}
