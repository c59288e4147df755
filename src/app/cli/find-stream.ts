import { streams } from '../../../jobs/registry.ts';
import type { Stream } from '../../sync/reading/stream.ts';
import { UsageError } from './usage.ts';

/**
 * Returns the stream of this name.
 * @throws UsageError with the names of all streams, if there is no stream of this name
 */
export function findStream(name: string): Stream {
  const stream = streams.find((known) => known.name === name);
  if (stream === undefined) {
    throw new UsageError(`There is no stream ${name}; known are ${streams.map((known) => known.name).join(', ')}`);
  }
  return stream;
}
