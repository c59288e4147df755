# npm install rather than npm ci: npm ci asks for the packages of every platform the lock file names.
FROM node:24-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm install --no-audit --no-fund
COPY tsconfig.json rolldown.config.ts ./
COPY config config
COPY jobs jobs
COPY migrations migrations
COPY scenarios scenarios
COPY src src
RUN npm run build

FROM node:24-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm install --omit=dev --no-audit --no-fund

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /build/dist dist
USER node
# Open to this container alone unless ADMIN_HOST and ADMIN_TOKEN say otherwise.
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.ADMIN_PORT || 8080) + '/livez').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# Left to itself V8 takes as much as a large machine has before it looks for what is no longer used: 460 MB instead of 180.
ENTRYPOINT ["node", "--max-semi-space-size=4", "--max-old-space-size=1024", "dist/main.js"]
CMD ["worker"]
