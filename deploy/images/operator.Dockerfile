# The operator's image over programs that are built already, for those who have Docker or buildah. `cargo xtask image`
# makes the same without them.
#
#   cargo build --locked --release --target x86_64-unknown-linux-musl --bin manager --bin agent
#   docker build -f deploy/images/operator.Dockerfile -t pulumi/pulumi-kubernetes-operator:v0.1.0 \
#     --build-context certificates=/etc/ssl/certs target/x86_64-unknown-linux-musl/release
FROM scratch
COPY --from=certificates ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --chmod=755 manager agent /
USER 65532:65532
# No entrypoint: whoever gives arguments gives the whole command, as upstream's manifests do.
CMD ["/manager"]
