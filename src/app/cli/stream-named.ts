import { streams } from '../../../jobs/registry.ts';
import type { Stream } from '../../sync/reading/stream.ts';
import { UsageError } from './usage.ts';

/** @throws UsageError that names the streams there are */
export function streamNamed(name: string): Stream {
  const stream = streams.find((known) => known.name === name);
  if (stream === undefined) {
    throw new UsageError(`There is no stream ${name}; known are ${streams.map((known) => known.name).join(', ')}`);
  }
  return stream;
}
