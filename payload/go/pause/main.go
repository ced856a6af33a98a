// Command pause holds a pod's namespaces open: it sleeps until it is told to end and reaps the pod's orphans,
// whose parent it becomes where the pod shares one process namespace. With -v it tells its version and ends at once:
// kubeadm tries with that, before an upgrade, whether the cluster runs jobs.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	if slices.Contains(os.Args[1:], "-v") {
		fmt.Println("pause 2")
		return
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			os.Exit(0)
		}
		reap()
	}
}

// reap collects every child that has ended; one signal may stand for several.
func reap() {
	for {
		process, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || process <= 0 {
			return
		}
	}
}
