# Herald as an image: the package that `npm run build` makes, Node, bubblewrap and ripgrep. compose.yaml starts it.
#   docker build -t herald .
# Nothing secret is in it: keys come in as variables or lie in the volume (.dockerignore lets only the sources in).
ARG NODE_IMAGE=node:24-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
COPY src/link-node.js src/
RUN npm ci
COPY . .
RUN npm run build -- /herald

FROM ${NODE_IMAGE}
RUN apt-get update \
  && apt-get install -y --no-install-recommends bubblewrap ripgrep \
  && rm -rf /var/lib/apt/lists/* \
  && userdel --remove node \
  && useradd --create-home --uid 1000 herald
COPY --from=build /herald /opt/herald
RUN ln -s /opt/herald/src/herald.js /usr/local/bin/herald
USER herald
WORKDIR /home/herald
# Settings, .env and state lie below its home, which a new volume takes from here. From outside a container only this address is reached.
RUN mkdir -m 700 config .herald \
  && echo '{ web: { host: "0.0.0.0" } }' > config/herald.json5 \
  && chmod 600 config/herald.json5
VOLUME /home/herald
EXPOSE 8787
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:8787/healthz').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
STOPSIGNAL SIGTERM
CMD ["herald", "start"]
