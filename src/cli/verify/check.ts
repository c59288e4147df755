/**
 * Checks of a service's promises: what is asked, what an answer says, and the settings that follow
 * from it.
 */

import type { WarehouseClient } from '../../../config/files.ts';
import type { Operation, OperationName } from '../../../config/operations.ts';
import type { ListLag } from '../../push/sql/look-ups.ts';
import type { Service } from './service.ts';

/** What every check gets. */
export interface VerifyContext {
  readonly client: WarehouseClient;
  readonly service: Service;
  /**
   * Asks for the track-trace list, which the service gives once an hour, or returns in words why
   * not now.
   */
  readonly askTrackTrace: (<T>(ask: () => Promise<T>) => Promise<T | string>) | null;
  /**
   * Returns how long the lists of the service have lagged so far; null if no look-up met a list
   * that did.
   */
  readonly readListLag: (() => Promise<ListLag | null>) | null;
}

/** One promise of the interface that can be checked by asking the service. */
export interface Check {
  /** A short name in words with hyphens. */
  readonly id: string;
  /** Section of docs/interface.md. */
  readonly section: string;
  readonly assumption: string;
  /** True if the assumption is quoted from a row of docs/assumptions.md. */
  readonly quoted?: boolean;
  readonly run: (context: VerifyContext) => Promise<VerifyResult>;
}

/** Declares a check of what docs/interface.md shows, or of an assumption that no page names. */
export const defineCheck = (
  id: string,
  section: string,
  assumption: string,
  run: Check['run'],
): Check => ({
  id,
  section,
  assumption,
  run,
});

/** Declares a check of an assumption that is quoted from a row of docs/assumptions.md. */
export const quoteCheck = (...parts: Parameters<typeof defineCheck>): Check => ({
  ...defineCheck(...parts),
  quoted: true,
});

/** Declares a check of an operation whose method and path are assumed. */
export function defineRouteCheck(name: OperationName, section: string, run: Check['run']): Check {
  const assumption = `The method and the path of \`${name}\` are those of config/operations.ts.`;
  return defineCheck(`route-${name}`, section, assumption, run);
}

/** The result of a check: what is assumed is true, is not true, or could not be found out. */
export type VerifyVerdict = 'holds' | 'differs' | 'cannot tell';

/** A setting that makes the daemon fit the service. */
export type Setting =
  | { readonly kind: 'variable'; readonly name: string; readonly value: string }
  | {
      readonly kind: 'entry';
      readonly operation: OperationName;
      readonly entry: Partial<Operation>;
    };

/**
 * What a check found. `evidence` holds counts, statuses, paths and names of members, but no values
 * of a client.
 */
export interface VerifyResult {
  readonly verdict: VerifyVerdict;
  readonly evidence: string;
  readonly settings: readonly Setting[];
}

export const promiseHolds = (evidence: string): VerifyResult => ({
  verdict: 'holds',
  evidence,
  settings: [],
});
export const cannotTell = (evidence: string): VerifyResult => ({
  verdict: 'cannot tell',
  evidence,
  settings: [],
});
export const promiseDiffers = (
  evidence: string,
  ...settings: readonly Setting[]
): VerifyResult => ({
  verdict: 'differs',
  evidence,
  settings,
});

/** A setting in WAREHOUSE_OPERATIONS_FILE. */
export const entry = (operation: OperationName, changes: Partial<Operation>): Setting => ({
  kind: 'entry',
  operation,
  entry: changes,
});

/** The outcome of one form of a request. */
interface Trial {
  readonly works: boolean;
  /** True if the service took it, although it does not work: then it does something else. */
  readonly isTaken?: boolean;
  readonly words: string;
}

/**
 * Tries forms of a request until one works. The first one is in use.
 * @param toSetting returns the setting that puts a form to use
 * @param advice what to do if no form works
 */
export async function tryForms<Form>(
  forms: readonly Form[],
  attempt: (form: Form) => Promise<Trial>,
  toSetting: (form: Form) => Setting,
  advice: string,
): Promise<VerifyResult> {
  const tried: string[] = [];
  let wasTaken = false;
  for (const [index, form] of forms.entries()) {
    const { works, words, isTaken = false } = await attempt(form);
    wasTaken ||= isTaken;
    if (words !== '') tried.push(words);
    if (works)
      return index === 0 ? promiseHolds(words) : promiseDiffers(tried.join('; '), toSetting(form));
  }
  return (wasTaken ? promiseDiffers : cannotTell)(`${tried.join('; ')}; ${advice}`);
}

/** A finding with the assumption that it is about. */
export interface VerifiedPromise
  extends VerifyResult,
    Pick<Check, 'id' | 'section' | 'assumption'> {
  readonly client: string;
}
