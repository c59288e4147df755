import { Transform } from 'node:stream';

const lineFeed = 0x0a;
const quote = 0x22;
const carriageReturn = Buffer.from('\r\n');

/**
 * Returns a stream that ends the records of a CSV with CRLF, as RFC 4180 asks, instead of LF. Line breaks inside quotes
 * are part of a value and stay as they are.
 */
export function createLineEnds(): Transform {
  let isQuoted = false;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const parts: Buffer[] = [];
      let start = 0;
      for (let index = 0; index < chunk.length; index++) {
        const byte = chunk[index];
        if (byte === quote) isQuoted = !isQuoted;
        else if (byte === lineFeed && !isQuoted) {
          parts.push(chunk.subarray(start, index), carriageReturn);
          start = index + 1;
        }
      }
      parts.push(chunk.subarray(start));
      done(null, Buffer.concat(parts));
    },
  });
}
