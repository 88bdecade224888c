# The image of the command line, from the archives of a release: `make image`, or
#
#   docker build --file Dockerfile --build-arg VERSION=1.2.3 dist/release
#
# The base has certificates, time zones and the user 65532, but no shell. The store of the command
# is in the working directory of that user: --volume "$PWD:/home/nonroot".
FROM gcr.io/distroless/static-debian12:nonroot@sha256:afa5c872c891853ca7fcf1f12c3edb23f7eeef36189728842dd51042ff57f7ab
ARG VERSION
ARG TARGETARCH
ADD oncebox_${VERSION}_linux_${TARGETARCH}.tar.gz /opt/oncebox/
USER 65532:65532
ENTRYPOINT ["/opt/oncebox/oncebox"]
