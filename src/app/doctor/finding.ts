import { describeError } from '../../core/errors.ts';

/** One thing that was looked at. */
export interface Finding {
  /** What was looked at, in a few words. */
  readonly check: string;
  readonly state: 'ok' | 'warn' | 'fail';
  readonly found: string;
  /** What to do; null where nothing is to be done. */
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

/** The findings of `look`; where it cannot even look, that is the finding. */
export async function orFailure(
  check: string,
  remedy: string,
  look: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await look();
  } catch (error) {
    return [fail(check, describeError(error), remedy)];
  }
}
