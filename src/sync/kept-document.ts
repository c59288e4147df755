import { isObject, type Json } from '../core/json.ts';

/** Characters of JSON that are kept of one resource in quarantine, with all that was included for it. */
const mostKept = 1_000_000;
/** Characters that are kept of all resources of one page; of those beyond only their beginning is. */
const mostOfPage = 8_000_000;
/** What is kept of a resource that is too large: so much of its beginning. */
const beginning = 2_000;
/** Answers smaller than this need no measuring: what they share cannot add up to much. */
const largeAnswer = 1_000_000;
/** Characters of a resource with what was included for it that are written, and of all resources of a page. */
const [mostWritten, mostWrittenOfPage] = [4_000_000, 64_000_000];

/**
 * Measures the resources of one page, so that what several of them link to does not multiply the answer: one included
 * resource of 10 MB, linked by 300 others, would make 3 GB. Each is measured once.
 */
export class PageSizes {
  readonly #large: boolean;
  readonly #sizes = new Map<Json, number>();
  #kept = 0;
  #written = 0;

  /** @param size characters of the answer; null where it holds one resource only, or is not known */
  constructor(size: number | null) {
    this.#large = size !== null && size > largeAnswer;
  }

  /** Why a resource, with all that was included for it, is too large to be written with this page; null where it is not. */
  tooLarge(whole: Json): string | null {
    if (!this.#large) return null;
    const size = this.#sizeOf(whole);
    if (size > mostWritten)
      return `has ${size} characters with what was included for it; ${mostWritten} are taken at most`;
    if (this.#written + size > mostWrittenOfPage)
      return `stands on a page of more than ${mostWrittenOfPage} characters, with what is included repeatedly; read it alone`;
    this.#written += size;
    return null;
  }

  /** JSON text of a resource for the quarantine: all of it, or where that is too much its id, its size and its beginning. */
  keep(whole: Json): string {
    const size = this.#sizeOf(whole);
    if (size <= mostKept && this.#kept + size <= mostOfPage) {
      this.#kept += size;
      return JSON.stringify(whole);
    }
    const { id = null, type = null } = isObject(whole) ? whole : {};
    const { text } = partsOf(whole);
    const tooLargeToKeep = `${size} characters; the first ${beginning} are kept`;
    return JSON.stringify({
      ...(isShort(id) ? { id } : {}),
      ...(isShort(type) ? { type } : {}),
      tooLargeToKeep,
      begins: text().slice(0, beginning),
    });
  }

  #sizeOf(whole: Json): number {
    const { text, included } = partsOf(whole);
    const own = this.#measured(whole, text);
    return included.reduce(
      (sum: number, resource) => sum + this.#measured(resource, () => JSON.stringify(resource)),
      own,
    );
  }

  #measured(part: Json, text: () => string): number {
    const known = this.#sizes.get(part);
    if (known !== undefined) return known;
    const size = text().length;
    this.#sizes.set(part, size);
    return size;
  }
}

/** The resource without what was included for it, and that. */
function partsOf(whole: Json): { readonly text: () => string; readonly included: readonly Json[] } {
  if (!isObject(whole) || !Array.isArray(whole.included)) return { text: () => JSON.stringify(whole), included: [] };
  const { included, ...rest } = whole;
  return { text: () => JSON.stringify(rest), included };
}

const isShort = (value: Json) => ['string', 'number'].includes(typeof value) && String(value).length <= 100;
