import { streams } from '../../../jobs/registry.ts';
import type { RefetchableResource, Stream } from '../../sync/reading/stream.ts';
import { authorizations } from '../../sync/streams/authorizations.ts';
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

/**
 * Returns the resource of this name that `refetch` reads: a stream, or return authorizations, which the service does not list.
 * @throws UsageError with the names of all such resources, if there is none of this name
 */
export function findRefetchable(name: string): RefetchableResource {
  const resources: readonly RefetchableResource[] = [...streams, authorizations];
  const resource = resources.find((known) => known.name === name);
  if (resource === undefined) {
    const names = resources.map((known) => known.name).join(', ');
    throw new UsageError(`There is nothing called ${name} to read by id; known are ${names}`);
  }
  return resource;
}
