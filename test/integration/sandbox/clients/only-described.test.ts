import { expect, test } from 'vitest';
import { operations } from '../../../../src/sandbox/operations/all.ts';
import { useClient } from '../../../helpers/client.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

const sandbox = useSandbox(['default'], { ...quiet, onlyDescribed: true });
const client = useClient(sandbox);

test('operations that the interface does not name are unknown routes of a sandbox with only what is described', async () => {
  for (const { name, method, path } of operations.filter(({ described }) => !described)) {
    const place = await sandbox.lastPlace();
    const { status } = await client.fetch(method, path.replace(':all', 'true'));
    expect([name, status]).toEqual([name, 404]);
    expect((await sandbox.requests(place)).map(({ operation }) => operation)).toEqual([null]);
  }
});
