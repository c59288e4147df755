import type { StoredOption } from '../../../erp/resources/settings.ts';
import type { SettingList } from '../../../warehouse/decoding/settings.ts';

/** Finds the ids for the codes in payloads. */
export interface CodeFinder {
  readonly find: (list: SettingList, code: string, signal: AbortSignal) => Promise<{ id: number } | CodeProblem>;
}

/** A code without exactly one id. */
export interface CodeProblem {
  readonly problem: string;
  /** True if several entries have the code: then the payload must name the id. */
  readonly several: boolean;
}

/** Returns the entries of a list that have a code. */
export const filterByCode = (options: readonly StoredOption[], list: SettingList, code: string): StoredOption[] =>
  options.filter((option) => option.list === list && option.code === code);

/** Returns the id of a code; or a problem in words, with the known codes, if no entry or several entries have it. */
export function findCode(
  options: readonly StoredOption[],
  list: SettingList,
  code: string,
): { id: number } | CodeProblem {
  const found = filterByCode(options, list, code);
  const [first, ...others] = found;
  if (first !== undefined && others.length === 0) return { id: first.id };
  if (first !== undefined)
    return {
      problem: `several entries have the code ${code} (ids ${found.map(({ id }) => id).join(', ')})`,
      several: true,
    };
  const codes = options
    .filter((option) => option.list === list)
    .map((option) => option.code ?? `id ${option.id}`)
    .join(', ');
  return { problem: `there is no code ${code} (known codes: ${codes || 'none'})`, several: false };
}
