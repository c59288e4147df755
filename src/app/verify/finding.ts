import type { Operation, OperationName } from '../../../config/operations.ts';

/** The result of a check: what is assumed is true, is not true, or could not be found out. */
export type Verdict = 'holds' | 'differs' | 'cannot tell';

/** A setting that makes the daemon fit the service. */
export type Setting =
  | { readonly kind: 'variable'; readonly name: string; readonly value: string }
  | { readonly kind: 'entry'; readonly operation: OperationName; readonly entry: Partial<Operation> };

/** What a check found. `evidence` holds counts, statuses, paths and names of members, but no values of a client. */
export interface Finding {
  readonly verdict: Verdict;
  readonly evidence: string;
  readonly settings: readonly Setting[];
}

export const holds = (evidence: string): Finding => ({ verdict: 'holds', evidence, settings: [] });
export const cannotTell = (evidence: string): Finding => ({ verdict: 'cannot tell', evidence, settings: [] });
export const differs = (evidence: string, ...settings: readonly Setting[]): Finding => ({
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

/** A finding with the assumption that it is about. */
export interface Judgement extends Finding {
  readonly client: string;
  readonly id: string;
  /** Section of docs/interface.md. */
  readonly section: string;
  readonly assumption: string;
}
