module pko-testkit/components/flux

go 1.24.0

require github.com/fluxcd/source-controller v1.8.5
