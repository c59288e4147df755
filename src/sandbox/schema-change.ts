/** A change of the service's answers that clients were not told about: new attributes, new values of attributes. */
export interface SchemaChange {
  /** The type of the v3 resources that change. */
  readonly type: string;
  /** Attributes that every resource of the type gets. */
  readonly add: Readonly<Record<string, unknown>>;
  /** New values by attribute and old value. */
  readonly values: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Returns a copy of an answer, or of a part of it, in which all v3 resources have changed. */
export function changeSchema(payload: unknown, changes: readonly SchemaChange[]): unknown {
  if (Array.isArray(payload)) return payload.map((part) => changeSchema(part, changes));
  if (typeof payload !== 'object' || payload === null) return payload;
  const copy: Record<string, unknown> = Object.fromEntries(
    Object.entries(payload).map(([name, part]) => [name, changeSchema(part, changes)]),
  );
  if (typeof copy.attributes !== 'object' || copy.attributes === null) return copy;
  for (const { type, add, values } of changes)
    if (copy.type === type) copy.attributes = changeAttributes(copy.attributes as Record<string, unknown>, add, values);
  return copy;
}

function changeAttributes(
  attributes: Readonly<Record<string, unknown>>,
  add: SchemaChange['add'],
  values: SchemaChange['values'],
): Record<string, unknown> {
  const changed = Object.entries(attributes).map(([name, value]) => {
    const renamed = Object.hasOwn(values, name) ? values[name] : undefined;
    return [name, renamed && Object.hasOwn(renamed, String(value)) ? renamed[String(value)] : value];
  });
  return { ...Object.fromEntries(changed), ...add };
}
