import type { ServiceLists, StoredOption } from '../../../erp/resources/service-lists.ts';
import type { SettingList } from '../../../warehouse/decoding/decode-service-lists.ts';

/** Compares payloads with the lists of the service. */
export interface CodeFinder {
  /** @param idMember member of the payload that takes an id instead of the code */
  readonly find: (
    list: SettingList,
    code: string,
    idMember: string,
    signal: AbortSignal,
  ) => Promise<{ id: number } | CodeProblem>;
  /** Returns the problem of a code that a list lacks, as `describeUnlisted` does; null if there is none. */
  readonly findListProblem: (
    list: SettingList,
    code: string,
    form: RegExp,
    signal: AbortSignal,
  ) => Promise<string | null>;
  /**
   * Returns the warehouses that offer a main shipping method; none if the lists do not tell.
   * @param wanted warehouses that should be among them
   */
  readonly findWarehouses: (
    methodId: number,
    wanted: readonly string[],
    signal: AbortSignal,
  ) => Promise<readonly string[]>;
}

/** Codes that are not compared with anything. */
export const anyCode: CodeFinder = {
  find: async () => ({ id: 0 }),
  findListProblem: async () => null,
  findWarehouses: async () => [],
};

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

/**
 * Returns the problem of a code that a list lacks; null if there is none. The interface does not show what the codes of
 * a list look like: a list that is empty, or has an entry of another form, is not compared.
 */
export function describeUnlisted(
  options: readonly StoredOption[],
  list: SettingList,
  code: string,
  form: RegExp,
): string | null {
  const codes = options.filter((option) => option.list === list).map((option) => option.code ?? '');
  if (codes.length === 0 || codes.includes(code) || !codes.every((one) => form.test(one))) return null;
  return `there is no code ${code} (known codes: ${[...new Set(codes)].join(', ')})`;
}

/** Returns the warehouses that offer a main shipping method. */
export const filterWarehouses = ({ offers }: ServiceLists, methodId: number): string[] =>
  offers.filter((offer) => offer.methodId === methodId).map(({ warehouse }) => warehouse);

function describeUnknownCode(options: readonly StoredOption[], list: SettingList, code: string, idMember: string) {
  const listed = options.filter((option) => option.list === list);
  const codes = [...new Set(listed.flatMap((option) => option.code || []))].join(', ') || 'none';
  const ids = listed.flatMap((option) => (option.code ? [] : [option.id])).sort((a, b) => a - b);
  const uncoded = ids.length === 0 ? '' : `; entries without a code: ids ${ids.join(', ')}, which ${idMember} takes`;
  return `there is no code ${code} (known codes: ${codes}${uncoded})`;
}
