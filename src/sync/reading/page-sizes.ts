import { isObject, type Json } from '../../core/json.ts';

/** Maximum size, in characters of JSON, of a resource in quarantine with its included resources. */
const maxKept = 1_000_000;
/** Maximum size of all resources of one page in quarantine. After that only the beginning of each is kept. */
const maxKeptPerPage = 8_000_000;
/** Number of characters that are kept from the beginning of a resource that is too large. */
const keptBeginning = 2_000;
/**
 * Answers up to this size are not measured. Half of one may be an included resource, and the other half resources of
 * 100 characters that link to it: that makes 56 MB at most.
 */
const smallAnswer = 150_000;
/** Maximum size of a resource with its included resources that is written with its page. */
const maxWritten = 4_000_000;
/** Maximum size of all resources that are written with one page. An included resource counts each time it is linked. */
const maxWrittenPerPage = 64_000_000;

/**
 * Bounds what one page costs. An included resource is stored with each resource that links to it: one of 10 MB, linked
 * by 300 others, would make 3 GB. Measures each resource once.
 */
export class PageSizes {
  readonly #isMeasured: boolean;
  readonly #sizes = new Map<Json, number>();
  #kept = 0;
  #written = 0;

  /**
   * @param size number of characters of the answer; null if it is not known or holds a single resource
   * @param sharesIncluded true if several resources may link to the same included resource
   */
  constructor(size: number | null, sharesIncluded = true) {
    this.#isMeasured = size !== null && size > (sharesIncluded ? smallAnswer : maxWritten);
  }

  /**
   * Returns why a resource, with its included resources, is too large to be written with this page; null if it is not.
   */
  findExcess(whole: Json): string | null {
    if (!this.#isMeasured) return null;
    const size = this.#measureWhole(whole);
    if (size > maxWritten) return `has ${size} characters with its included resources; the maximum is ${maxWritten}`;
    if (this.#written + size > maxWrittenPerPage)
      return `is on a page of more than ${maxWrittenPerPage} characters, counting each included resource as often as it is linked`;
    this.#written += size;
    return null;
  }

  /** Returns the JSON text of a resource for the quarantine. If it is too large: its id, its size and its beginning. */
  toKeptText(whole: Json): string {
    const size = this.#measureWhole(whole);
    if (size <= maxKept && this.#kept + size <= maxKeptPerPage) {
      this.#kept += size;
      return JSON.stringify(whole);
    }
    const { id = null, type = null } = isObject(whole) ? whole : {};
    const { text } = separate(whole);
    const tooLargeToKeep = `${size} characters; the first ${keptBeginning} are kept`;
    return JSON.stringify({
      ...(isShort(id) ? { id } : {}),
      ...(isShort(type) ? { type } : {}),
      tooLargeToKeep,
      begins: text().slice(0, keptBeginning),
    });
  }

  #measureWhole(whole: Json): number {
    const { text, included } = separate(whole);
    const resourceSize = this.#measure(whole, text);
    return included.reduce(
      (sum: number, resource) => sum + this.#measure(resource, () => JSON.stringify(resource)),
      resourceSize,
    );
  }

  #measure(part: Json, text: () => string): number {
    const known = this.#sizes.get(part);
    if (known !== undefined) return known;
    const size = text().length;
    this.#sizes.set(part, size);
    return size;
  }
}

/** Separates a resource from its included resources. */
function separate(whole: Json): { readonly text: () => string; readonly included: readonly Json[] } {
  if (!isObject(whole) || !Array.isArray(whole.included)) return { text: () => JSON.stringify(whole), included: [] };
  const { included, ...rest } = whole;
  return { text: () => JSON.stringify(rest), included };
}

const isShort = (value: Json) => ['string', 'number'].includes(typeof value) && String(value).length <= 100;
