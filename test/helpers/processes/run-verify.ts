import type { Report } from '../../../src/cli/commands/verify.ts';
import type { SandboxControl } from '../sandbox-control.ts';
import { runCommand } from './run-command.ts';

/** Returns a function that runs `service verify` against a sandbox. */
export function useVerify(sandbox: SandboxControl) {
  const verify = (words: readonly string[] = [], env: Record<string, string> = {}) =>
    runCommand(['service', 'verify', ...words], {
      WAREHOUSE_BASE_URL: sandbox.url.href,
      WAREHOUSE_USERNAME: 'default',
      WAREHOUSE_PASSWORD: 'default',
      ...env,
    });
  const verifyAsJson = async (words: readonly string[] = [], env: Record<string, string> = {}) => {
    const { code, output } = await verify(['--json', ...words], env);
    const report = JSON.parse(output.slice(output.indexOf('{\n'))) as Report;
    const ids = (verdict: string) =>
      report.judgements.filter((one) => one.verdict === verdict).map(({ id }) => id);
    return {
      code,
      report,
      output,
      differs: ids('differs'),
      unknown: ids('cannot tell'),
      holds: ids('holds'),
    };
  };
  return { verifyAsJson };
}
