import { none } from './none.ts';

const maxShared = 50_000;

/** Makes rows share what is equal in them, such as skus, addresses and empty lists: a million rows are read line by line. */
export class Sharing {
  readonly #texts = new Map<string, string>();
  readonly #addresses = new Map<string, object>();

  /** The same value, with parts that others have, too, taken from those. Changes objects and lists in place. */
  shared(value: unknown): unknown {
    if (typeof value === 'string') return remembered(this.#texts, value, value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) {
      for (const [index, part] of value.entries()) value[index] = this.shared(part);
      return value.length === 0 ? none : value;
    }
    const parts = value as Record<string, unknown>;
    for (const [name, part] of Object.entries(parts)) parts[name] = this.shared(part);
    return 'street1' in parts ? remembered(this.#addresses, JSON.stringify(parts), parts) : parts;
  }
}

function remembered<T>(known: Map<string, T>, key: string, value: T): T {
  const same = known.get(key);
  if (same !== undefined) return same;
  if (known.size >= maxShared) known.clear();
  known.set(key, value);
  return value;
}
