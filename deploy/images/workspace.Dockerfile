# A workspace's image with the embedded engine, over a program that is built already. `cargo xtask image` makes the same
# without Docker.
#
#   cargo build --locked --release --target x86_64-unknown-linux-musl --bin pulumi-engine
#   docker build -f deploy/images/workspace.Dockerfile -t pulumi/pulumi-kubernetes-operator-workspace:v0.1.0 \
#     --build-context certificates=/etc/ssl/certs target/x86_64-unknown-linux-musl/release
FROM scratch
COPY --from=certificates ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --chmod=755 pulumi-engine /usr/bin/pulumi
USER 1000:1000
# Without a shell nobody can make a folder and give it away: a working directory is made for its user.
WORKDIR /tmp
WORKDIR /home/pulumi
ENV HOME=/home/pulumi USER=pulumi
ENTRYPOINT ["/usr/bin/pulumi"]
