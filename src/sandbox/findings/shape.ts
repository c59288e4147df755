const maxDepth = 2;
const maxNames = 8;
const maxNameLength = 40;

/** Returns the names and types of a value as a text such as `{sku: text, tags: [text]}`. It contains no values. */
export function describeShape(value: unknown, depth = maxDepth): string {
  if (value === null) return 'null';
  if (Array.isArray(value))
    return value.length === 0 ? '[]' : `[${depth > 0 ? describeShape(value[0], depth - 1) : '…'}]`;
  if (typeof value !== 'object') return typeof value === 'string' ? 'text' : typeof value;
  const entries = Object.entries(value);
  if (entries.length === 0 || depth === 0) return entries.length === 0 ? '{}' : '{…}';
  const members = entries
    .slice(0, maxNames)
    .map(([name, member]) => `${name.slice(0, maxNameLength)}: ${describeShape(member, depth - 1)}`);
  return `{${[...members, ...(entries.length > maxNames ? ['…'] : [])].join(', ')}}`;
}
