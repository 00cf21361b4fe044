// Command kubebox is the test control plane in one binary: etcd,
// kube-apiserver, kubectl, and minikcm, which is what Cluster API needs of
// kube-controller-manager. The name it is run under or its first argument
// chooses. One binary links the code that they share only once, which a cold
// build on a small machine notices.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// dieVariable, if it is set, has a program end with the one that started it: a
// test that times out stops nothing, and an API server is half a gigabyte.
const dieVariable = "KUBEBOX_DIE_WITH_PARENT"

func main() {
	if os.Getenv(dieVariable) != "" {
		dieWithParent()
	}
	name := filepath.Base(os.Args[0])
	if name == "kubebox" {
		if len(os.Args) < 2 {
			fmt.Fprintln(os.Stderr, "usage: kubebox etcd|kube-apiserver|minikcm|kubectl [flags]")
			os.Exit(2)
		}
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "minikcm":
		os.Exit(minikcm(os.Args[1:]))
	case "kubectl":
		_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
		if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
			kubectlutil.CheckErr(err)
		}
	default:
		fmt.Fprintf(os.Stderr, "kubebox: unknown name %q: want etcd, kube-apiserver, minikcm or kubectl\n", name)
		os.Exit(2)
	}
}
