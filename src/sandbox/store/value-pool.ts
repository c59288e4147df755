import { emptyList } from './empty-list.ts';

const maxValues = 50_000;

/**
 * A pool of values that lets loaded rows share equal parts, such as skus, addresses and empty lists. Without it a
 * million rows that are read line by line would take far more memory.
 */
export class ValuePool {
  readonly #texts = new Map<string, string>();
  readonly #addresses = new Map<string, object>();

  /** Replaces the parts of a value by equal parts of earlier values. Changes objects and lists in place. */
  share(value: unknown): unknown {
    if (typeof value === 'string') return findOrAdd(this.#texts, value, value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) {
      for (const [index, part] of value.entries()) value[index] = this.share(part);
      return value.length === 0 ? emptyList : value;
    }
    const parts = value as Record<string, unknown>;
    for (const [name, part] of Object.entries(parts)) parts[name] = this.share(part);
    return 'street1' in parts ? findOrAdd(this.#addresses, JSON.stringify(parts), parts) : parts;
  }
}

function findOrAdd<T>(known: Map<string, T>, key: string, value: T): T {
  const same = known.get(key);
  if (same !== undefined) return same;
  if (known.size >= maxValues) known.clear();
  known.set(key, value);
  return value;
}
