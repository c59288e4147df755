import type { MirroredResource } from '../../../src/pull/stream.ts';
import { streams } from '../../../src/pull/streams/all-streams.ts';
import { authorizations } from '../../../src/pull/streams/authorizations.ts';
import { toColumn } from '../../../src/service/decoding/fields.ts';

export const mirroredResources: readonly MirroredResource[] = [...streams, authorizations];

/**
 * Returns the text of src/db/generated/stream-columns.ts, made from the declarations of the
 * streams.
 */
export function renderPersonalColumns(): string {
  const tables = new Map<string, readonly string[]>();
  for (const { resource } of mirroredResources.filter(
    (mirrored) => mirrored.resource.erasedWithOrders,
  ))
    for (const { table, fields } of [resource, ...resource.children]) {
      const personal = fields.columns.flatMap(({ column, field: { erasing } }) =>
        erasing === undefined ? [] : [`${column}: '${erasing}'`],
      );
      const { kept } = resource;
      if (kept && table === resource.table) personal.push(`${toColumn(kept)}: 'null'`);
      tables.set(table, [...personal, `raw: 'mask'`]);
    }
  const entries = [...tables]
    .toSorted()
    .map(
      ([table, columns]) =>
        `  ${table}: {${columns.map((column) => `\n    ${column},`).join('')}\n  },\n`,
    );
  return `/** Generated from the streams by \`npm run golden\`. Do not edit it. */\n\nexport const streamColumns = {\n${entries.join('')}} as const;\n`;
}
