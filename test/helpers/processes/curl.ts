import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { SandboxControl } from '../sandbox-control.ts';

export interface CurlAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/**
 * Calls a sandbox with curl, as programs of others do: as the client `default`, with a token of its
 * own.
 */
export function createCurl(control: SandboxControl) {
  const run = async (path: string, args: readonly string[]): Promise<CurlAnswer> => {
    const options = ['-s', '-g', '-w', '\n%{http_code}'];
    const { stdout } = await promisify(execFile)('curl', [
      ...options,
      ...args,
      new URL(path, control.url).href,
    ]);
    const [body = '', status] = stdout.split(/\n(?=\d+$)/);
    return { status: Number(status), body: JSON.parse(body) as Record<string, unknown> };
  };
  let token: string | undefined;
  const call = async (path: string, args: readonly string[] = []) => {
    token ??= String(
      (await run('/token', ['-d', 'grant_type=password&username=default&password=default'])).body
        .access_token,
    );
    return run(path, ['-H', `Authorization: bearer ${token}`, ...args]);
  };
  return {
    get: (path: string) => call(path),
    json: (path: string, body: unknown) =>
      call(path, ['-H', 'Content-Type: application/json', '-d', JSON.stringify(body)]),
    /**
     * Sends pairs such as `OrderItems[0][Sku]=A`. curl encodes the values; names are sent as they
     * are.
     */
    form: (path: string, pairs: readonly string[]) =>
      call(
        path,
        pairs.flatMap((pair) => ['--data-urlencode', pair]),
      ),
    /** Forgets the token, which ends with each reset. */
    logOut: () => {
      token = undefined;
    },
  };
}
