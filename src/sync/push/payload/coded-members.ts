import type { Json } from '../../../core/json.ts';
import { findCodeChoiceProblems } from '../../../payloads/rules.ts';
import type { SettingList } from '../../../warehouse/decoding/decode-service-lists.ts';
import { type CheckContext, type JsonObject, PayloadError } from './kind.ts';

/** Two members of a payload that name an entry of a list of the settings: by its code, or by its id. */
export interface CodedMember {
  readonly list: SettingList;
  readonly byCode: string;
  readonly byId: string;
  /** True if one of both must be given. */
  readonly required: boolean;
}

/**
 * Returns the problems of a coded member: both are given, none although one is required, or the code has no single id.
 * @param path place of `value` in the payload, such as `items[0].`
 */
export async function findCodeProblems(
  value: JsonObject,
  { list, byCode, byId, required }: CodedMember,
  { codes, signal }: CheckContext,
  path = '',
): Promise<string[]> {
  const problems = findCodeChoiceProblems(value, { byCode, byId, required }, path);
  if (problems.length > 0) return problems;
  const code = value[byCode];
  if (typeof code !== 'string' || code === '') return [];
  const found = await codes.find(list, code, byId, signal);
  return 'problem' in found ? [`${path}${byCode}: ${found.problem}`] : [];
}

/**
 * Returns the id that a payload names by id or code; null if it names none.
 * @throws PayloadError if the code has no single id: the settings have changed since the payload was checked
 */
export async function findNamedId(
  value: { readonly [member: string]: unknown },
  { list, byCode, byId }: CodedMember,
  { codes, signal }: CheckContext,
  path = '',
): Promise<number | null> {
  const { [byId]: id, [byCode]: code } = value as { readonly [member: string]: Json | undefined };
  if (typeof id === 'number') return id;
  if (typeof code !== 'string') return null;
  const found = await codes.find(list, code, byId, signal);
  if ('problem' in found) throw new PayloadError([`${path}${byCode}: ${found.problem}`]);
  return found.id;
}
