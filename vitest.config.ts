import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    // Most of the time is spent waiting for processes and leases: five at a time, also on a machine of two cores.
    maxWorkers: 5,
    projects: [
      { test: { name: 'architecture', include: ['test/architecture.test.ts'] } },
      // No time limits but against what hangs: a busy machine may be many times slower than this one.
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], testTimeout: 60_000 } },
      {
        // Against a Postgres, a Redis and processes of our own: one set of servers for the whole run.
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts', 'test/e2e/**/*.test.ts'],
          globalSetup: ['test/helpers/global-setup.ts'],
          testTimeout: 150_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
