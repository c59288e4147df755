import type { Operation, OperationName } from '../../../config/operations.ts';

/** A method and a path. */
export type Route = Pick<Operation, 'method' | 'path'>;

/** Other words that services use for the last step of a path. */
const synonyms: Readonly<Record<string, readonly string[]>> = {
  search: ['find', 'get', 'lookup', ''],
  list: ['get', 'all', ''],
  tracktrace: ['track-trace', 'track_trace', 'tracktrace/get', 'trackAndTrace'],
};
const maxRoutes = 40;

/**
 * Returns likely routes of an operation whose path docs/interface.md does not show, the most likely first: other words for
 * the last step, singular and plural, another prefix, another case, and the other method.
 * @param methods the methods that this operation may be asked with, without changing anything
 */
export function listAlternatives(
  name: OperationName,
  { method, path }: Route,
  methods: readonly Route['method'][],
): Route[] {
  const fixed = path.split('/').filter(Boolean);
  const parameters = fixed.filter((step) => step.startsWith('{'));
  const [generation = '', resource = '', ...rest] = fixed.filter((step) => !step.startsWith('{'));
  const verb = rest.join('/');
  const plural = resource.endsWith('s') ? resource.slice(0, -1) : `${resource}s`;
  const verbs = [verb, ...(synonyms[verb.toLowerCase()] ?? []), toCamelCase(name)];
  const build = (prefix: string, word: string, last: string) =>
    `/${[prefix, word, last, ...parameters].filter(Boolean).join('/')}`;
  const paths = [
    ...[resource, plural].flatMap((word) => verbs.map((last) => build(generation, word, last))),
    ...['', `api/${generation}`].flatMap((prefix) => [resource, plural].map((word) => build(prefix, word, verb))),
    build(generation, capitalize(resource), capitalize(verb)),
    build(generation, capitalize(plural), capitalize(verb)),
  ];
  const others = methods.filter((other) => other !== method);
  const routes = [method, ...others].flatMap((one) => [...new Set(paths)].map((path) => ({ method: one, path })));
  return routes.filter((route) => route.method !== method || route.path !== path).slice(0, maxRoutes);
}

/** Returns the last part of an operation's name, such as `trackTrace`. */
const toCamelCase = (name: OperationName) => name.split('.').at(-1) ?? '';
const capitalize = (word: string) => word.replace(/^[a-z]/, (letter) => letter.toUpperCase());
