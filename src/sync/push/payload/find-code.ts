import type { StoredOption } from '../../../erp/resources/settings.ts';
import type { SettingList } from '../../../warehouse/decoding/settings.ts';

/** Finds the ids for the codes in payloads. */
export interface CodeFinder {
  /** @param idMember member of the payload that takes an id instead of the code */
  readonly find: (
    list: SettingList,
    code: string,
    idMember: string,
    signal: AbortSignal,
  ) => Promise<{ id: number } | CodeProblem>;
}

/** A code without exactly one id, in words. */
export interface CodeProblem {
  readonly problem: string;
}

/** Returns the entries of a list that have a code. */
export const filterByCode = (options: readonly StoredOption[], list: SettingList, code: string): StoredOption[] =>
  options.filter((option) => option.list === list && option.code === code);

/**
 * Returns the id of a code; or a problem in words, with what can be used instead, if no entry or several entries have it.
 * @param idMember member of the payload that takes an id instead of the code
 */
export function findCode(
  options: readonly StoredOption[],
  list: SettingList,
  code: string,
  idMember: string,
): { id: number } | CodeProblem {
  const found = filterByCode(options, list, code);
  const [first, ...others] = found;
  if (first === undefined) return { problem: describeUnknownCode(options, list, code, idMember) };
  if (others.length === 0) return { id: first.id };
  const ids = found.map(({ id }) => id).join(', ');
  return { problem: `several entries have the code ${code} (ids ${ids}), so use ${idMember} instead` };
}

function describeUnknownCode(options: readonly StoredOption[], list: SettingList, code: string, idMember: string) {
  const listed = options.filter((option) => option.list === list);
  const codes = [...new Set(listed.flatMap((option) => option.code || []))].join(', ') || 'none';
  const ids = listed.flatMap((option) => (option.code ? [] : [option.id])).sort((a, b) => a - b);
  const uncoded = ids.length === 0 ? '' : `; entries without a code: ids ${ids.join(', ')}, which ${idMember} takes`;
  return `there is no code ${code} (known codes: ${codes}${uncoded})`;
}
