import type { NumberedReading } from '../../erp/runs/confirmations.ts';
import { type DecodedPage, emptyPage } from '../reading/decode.ts';

/** Resources read at one moment, as rows. */
export interface Reading {
  /**
   * Number of the reading, drawn before its request. If there were several requests: the oldest number. A parent row
   * with a `read_no` overrides it for its family.
   */
  readonly readNo: number;
  /** Number of list pages that this reading covers; 0 if the resources were fetched by id. */
  readonly pages: number;
  /** Number of resources that were received. */
  readonly resources: number;
  /** The resources as rows, and those that could not be decoded. */
  readonly decoded: DecodedPage;
}

/** Returns a reading without resources. It dates changes that follow from an absence to the reading `readNo`. */
export const makeEmptyReading = (readNo: number): Reading => ({ readNo, pages: 0, resources: 0, decoded: emptyPage });

/** Returns the number of pages that a reading counts for in the ledger: at least one, if it has resources. */
export const countPages = ({ pages, resources }: Reading) => Math.max(pages, resources > 0 ? 1 : 0);

/** Returns the given ids, each with the number of its reading. */
export function findReadNos({ readNo }: Reading, { families }: DecodedPage, ids: readonly number[]): NumberedReading[] {
  const readNoById = new Map(families.map(({ parent }) => [parent.id, parent.read_no]));
  return ids.map((id) => ({ id, readNo: readNoById.get(id) ?? readNo }));
}
