// Command kube-controller-manager is Kubernetes' own set of controllers, built from the published Go modules.
package main

import (
	"os"
	_ "time/tzdata" // a CronJob may name a time zone, and a bare container has no time zone files

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	os.Exit(cli.Run(app.NewControllerManagerCommand()))
}
