# Two images: the worker (the default), and with `--target sandbox` the sandbox alone.
# A digest makes the base image the same at every build: --build-arg NODE_IMAGE=node:24-slim@sha256:… Take it from
# `docker buildx imagetools inspect node:24-slim`; it is not kept here, because nothing would renew it.
ARG NODE_IMAGE=node:24-slim

# npm install rather than npm ci: npm ci asks for the packages of every platform the lock file names.
FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm install --no-audit --no-fund
COPY tsconfig.json rolldown.config.ts ./
COPY config config
COPY jobs jobs
COPY migrations migrations
COPY src src
COPY tools/packed-manifest.ts tools/packed-manifest.ts
# package.json then names only what is not in the bundle.
RUN npm run build && node tools/packed-manifest.ts
RUN cp -R dist dist-without-maps && find dist-without-maps -name '*.map' -delete

FROM ${NODE_IMAGE} AS dependencies
WORKDIR /app
COPY --from=build /build/package.json /build/package-lock.json /build/.npmrc ./
RUN npm install --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund

FROM ${NODE_IMAGE} AS base
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="fulfilment-sync" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  org.opencontainers.image.created="${CREATED}"
ENV NODE_ENV=production
# One arena of malloc for all threads, which gives back what is free: an idle worker takes 18 MB less.
ENV MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=131072
WORKDIR /app

FROM base AS sandbox
LABEL org.opencontainers.image.description="A stand-in for a warehouse fulfilment service"
COPY --from=build /build/dist-without-maps dist
# For `--state /state/sandbox.json`, with a volume at /state.
RUN mkdir /state && chown node:node /state
USER node
EXPOSE 8090
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8090/status/get').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "--max-semi-space-size=4", "--max-old-space-size-percentage=60", "--", "dist/main.js", "sandbox", "--host", "0.0.0.0"]

FROM base AS worker
LABEL org.opencontainers.image.description="Keeps an ERP's Postgres tables in step with a warehouse fulfilment service"
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /build/dist dist
USER node
# Open to this container alone unless ADMIN_HOST and ADMIN_TOKEN say otherwise. Readiness: a worker that waits for Postgres
# or Redis is not healthy. Orchestrators that restart what is unhealthy should ask /livez instead.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.ADMIN_PORT || 8080) + '/readyz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# Left to itself V8 takes as much as a large machine has before it looks for what is no longer used: 460 MB instead of 180.
# The percentage is of the memory limit of the container; without a limit, of the machine.
ENTRYPOINT ["node", "--max-semi-space-size=4", "--max-old-space-size-percentage=60", "--", "dist/main.js"]
CMD ["worker"]
