// CoreDNS with the plugins that the test cluster uses. The released program has fifty, most of which
// bring a cloud's SDK: this one builds in a fraction of the time.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// The order in which plugins see a query: what is not in the cluster's zone goes on to the template.
	dnsserver.Directives = []string{"bind", "errors", "kubernetes", "template"}
	coremain.Run()
}
