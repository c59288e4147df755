import type { FastifyRequest } from 'fastify';

/**
 * A request that is not accepted. v3 answers with its `status` and JSON:API errors, older
 * generations with NOK.
 */
export class Refusal extends Error {
  readonly status: number;
  /** The query parameter that is wrong. */
  readonly parameter: string | undefined;

  constructor(status: number, detail: string, parameter?: string) {
    super(detail);
    this.name = 'Refusal';
    this.status = status;
    this.parameter = parameter;
  }
}

/** Returns the refusal of a wrong query parameter. */
export function badParameter(parameter: string, detail: string): Refusal {
  return new Refusal(400, `${parameter} ${detail}`, parameter);
}

/**
 * Returns the refusal of a request for something that does not exist, or that belongs to another
 * client.
 */
export function notFound(what: string): Refusal {
  return new Refusal(404, `There is no such ${what}`);
}

/** Returns the refusal of a request that breaks a rule. */
export function ruleBroken(detail: string): Refusal {
  return new Refusal(422, detail);
}

/** Returns what a request names. Refuses a request that names something unknown. */
export function requireFound<T>(found: T | undefined, problem: string): T {
  if (found === undefined) throw ruleBroken(problem);
  return found;
}

/** Names of this machine: addresses, `localhost`, and names without a dot, as containers have. */
const localName = /^(\[[\da-f:.]+\]|[\d.]+|[^.]+|[^.]+\.localhost)$/i;

/**
 * Refuses a control call by a page of another site. Browsers name the origin of such calls;
 * programs do not.
 */
export function refuseOtherSites(request: FastifyRequest): void {
  if (
    request.routeOptions.config.operation !== null ||
    request.method === 'GET' ||
    request.method === 'HEAD'
  )
    return;
  const { origin, host = '', 'sec-fetch-site': site } = request.headers;
  const isOtherSite = site !== undefined && site !== 'same-origin' && site !== 'none';
  const isOtherOrigin =
    origin !== undefined && (!isFromHost(origin, host) || isForeignName(request, host));
  if (isOtherSite || isOtherOrigin)
    throw new Refusal(
      403,
      'Pages of other sites must not control the sandbox: open its own page, or use curl',
    );
}

/**
 * Returns whether a URL has the host of a request. Schemes may differ (a proxy); an origin of
 * `null` has no host.
 */
const isFromHost = (url: string, host: string): boolean =>
  URL.canParse(url) && new URL(url).host === host;

/**
 * Returns whether a site outside has given its own name to this machine, to be of the same origin
 * as the sandbox.
 */
function isForeignName({ socket }: FastifyRequest, host: string): boolean {
  const isLoopback = /^(::1$|127\.|::ffff:127\.)/.test(socket.localAddress ?? '');
  return isLoopback && !localName.test(host.replace(/:\d+$/, ''));
}
