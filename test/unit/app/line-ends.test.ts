import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { createLineEnds } from '../../../src/app/export/line-ends.ts';

const csv = 'id,note\n1,"two\nlines"\n2,"a ""quote"""\n\n3,\n';
const expected = 'id,note\r\n1,"two\nlines"\r\n2,"a ""quote"""\r\n\r\n3,\r\n';

test.each([1, 2, 3, 7, 1_000])(
  'records end with CRLF, values keep their line breaks, in chunks of %i bytes',
  async (size) => {
    const bytes = Buffer.from(csv);
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, nth) =>
      bytes.subarray(nth * size, (nth + 1) * size),
    );
    expect(await text(Readable.from(chunks).pipe(createLineEnds()))).toBe(expected);
  },
);
