/**
 * Runs the integration tests against images of Postgres and Redis, which testcontainers starts:
 * `npm run test:containers [-- PATH…]`. TEST_POSTGRES_IMAGE and TEST_REDIS_IMAGE name other images.
 * Without a container engine it says that nothing was tested, and fails only if CONTAINERS=required
 * is set.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { hasDocker } from '../test/helpers/processes/containers.ts';
import { postgresImage, redisImage } from '../test/helpers/processes/test-servers.ts';

if (await hasDocker()) {
  const images = {
    // The images of docker-compose.yml.
    TEST_POSTGRES_IMAGE: postgresImage ?? 'postgres:17',
    TEST_REDIS_IMAGE: redisImage ?? 'redis:7',
  };
  process.stdout.write(`Integration tests against ${Object.values(images).join(' and ')}\n`);

  const args = ['vitest', 'run', '--project', 'integration', ...process.argv.slice(2)];
  const tests = spawn('npx', args, { stdio: 'inherit', env: { ...process.env, ...images } });
  const [code] = await once(tests, 'exit');
  process.exitCode = code ?? 1;
} else {
  process.stdout.write(
    'SKIPPED: no container engine answers here, so nothing was tested against images\n',
  );
  if (process.env.CONTAINERS === 'required') process.exitCode = 1;
}
