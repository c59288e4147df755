import type { IncomingMessage } from 'node:http';
import { operations } from '../operations/all.ts';
import type { Operation } from '../operations/operation.ts';
import type { Unlike } from '../unlike.ts';
import { splitUrl } from './request-input.ts';

/**
 * Returns the URL with which the server finds the operation of a request, and gives the request its method. A renamed
 * operation is found at its new route only.
 */
export function rerouteRequest(request: IncomingMessage, { paths }: Unlike): string {
  const { url = '/', method = 'GET' } = request;
  const [path, query] = splitUrl(url);
  const renamed = Object.entries(paths).flatMap(([name, route]) => {
    const operation = operations.find((known) => known.name === name);
    return operation === undefined ? [] : [{ operation, route }];
  });
  for (const { operation, route } of renamed) {
    const [wantedMethod = '', wantedPath = ''] = route.split(' ');
    const values = method === wantedMethod ? matchPath(path, wantedPath, /\{\w+\}/g) : null;
    if (values === null) continue;
    request.method = operation.method;
    return `${fillPath(operation, values)}${query === '' ? '' : `?${query}`}`;
  }
  const isHidden = renamed.some(
    ({ operation }) => operation.method === method && matchPath(path, operation.path, /:\w+/g) !== null,
  );
  return isHidden ? `/_renamed${url}` : url;
}

/** Returns the values of the parameters of a path; null if the path is another one. */
function matchPath(path: string, template: string, parameter: RegExp): string[] | null {
  const pattern = template
    .split(parameter)
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
    .join('([^/]+)');
  return new RegExp(`^${pattern}$`, 'i').exec(path)?.slice(1) ?? null;
}

function fillPath({ path }: Operation, values: readonly string[]): string {
  const rest = [...values];
  return path.replaceAll(/:\w+/g, () => rest.shift() ?? '');
}
