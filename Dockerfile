# The image of hack/image (`make image`), for those who would rather have Docker make
# it: the same files, by the same program. A test holds the rest to be the same.
#
#   docker build --build-arg VERSION="$(git describe --tags --always)" \
#     --build-arg COMMIT="$(git rev-parse HEAD)" \
#     --build-arg SOURCE_DATE_EPOCH="$(git show -s --format=%ct)" \
#     --build-arg CREATED="$(TZ=UTC git show -s --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)" \
#     -t holdfast .
FROM --platform=$BUILDPLATFORM golang:1.26.10 AS build
WORKDIR /src
# So that modules are fetched again only when they have changed.
COPY go.mod go.sum ./
COPY third_party third_party
COPY hack/image/go.mod hack/image/go.sum hack/image/
RUN go mod download && go -C hack/image mod download
COPY . .
ARG VERSION COMMIT SOURCE_DATE_EPOCH TARGETARCH
RUN hack/image/run.sh rootfs "linux/$TARGETARCH" /rootfs

FROM scratch
ARG VERSION COMMIT CREATED
LABEL org.opencontainers.image.title="holdfast" \
  org.opencontainers.image.description="Detects drift between Cluster API objects and what runs in AWS and vSphere" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.source="https://github.com/holdfast-io/holdfast" \
  org.opencontainers.image.url="https://github.com/holdfast-io/holdfast" \
  org.opencontainers.image.documentation="https://github.com/holdfast-io/holdfast/tree/main/docs" \
  org.opencontainers.image.version="$VERSION" \
  org.opencontainers.image.revision="$COMMIT" \
  org.opencontainers.image.created="$CREATED"
COPY --from=build /rootfs /
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/holdfast"]
CMD ["controller"]
