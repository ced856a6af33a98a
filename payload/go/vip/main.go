// Command hagane-vip gives one master of a cluster at a time the cluster's virtual address. Masters take turns by a lease
// of the cluster's own API: who holds it has the address, and who cannot renew it gives the address up before another one
// may take it. It speaks to the API server of its own host, so it needs no virtual address itself.
//
//	hagane-vip hold ADDRESS INTERFACE NAME KUBECONFIG    holds the address whenever it holds the lease, until it is told to end
//	hagane-vip free ADDRESS INTERFACE                    takes the address off the interface
//	hagane-vip probe ADDRESS INTERFACE                   fails where another host has the address
//	hagane-vip take ADDRESS INTERFACE                    takes the address without a lease, to make a cluster
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Times of the lease. A holder that cannot renew gives up after renewDeadline, and no other takes over before leaseDuration.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	announcements = 30 * time.Second
	probeTime     = 2 * time.Second
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hagane-vip:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 3 {
		return fmt.Errorf("usage: hagane-vip hold|free|probe|take ADDRESS INTERFACE [NAME KUBECONFIG]")
	}
	address := net.ParseIP(arguments[1]).To4()
	if address == nil {
		return fmt.Errorf("%q is not possible: an IPv4 address", arguments[1])
	}
	place := &place{address: address, link: arguments[2]}
	switch {
	case arguments[0] == "hold" && len(arguments) == 5:
		return hold(place, arguments[3], arguments[4])
	case arguments[0] == "free":
		return place.free()
	case arguments[0] == "probe":
		return place.probe()
	case arguments[0] == "take":
		return place.take()
	}
	return fmt.Errorf("no such command: %s", strings.Join(arguments, " "))
}

func hold(place *place, name, kubeconfig string) error {
	// A run before this one may have ended without giving it up.
	if err := place.free(); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("https://localhost:6443", kubeconfig)
	if err != nil {
		return fmt.Errorf("failed to read %s: %w", kubeconfig, err)
	}
	config.Timeout = renewDeadline / 2
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "kube-system", Name: "hagane-vip"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	for ctx.Err() == nil {
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock:            lock,
			LeaseDuration:   leaseDuration,
			RenewDeadline:   renewDeadline,
			RetryPeriod:     retryPeriod,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: place.keep,
				OnStoppedLeading: func() {
					place.changing.Lock()
					defer place.changing.Unlock()
					if err := place.free(); err != nil {
						// With the address still on, another holder would make two: end, and let systemd free it.
						fmt.Fprintln(os.Stderr, "hagane-vip:", err)
						os.Exit(1)
					}
				},
			},
		})
	}
	return nil
}

// place is an address on an interface of this host.
type place struct {
	address net.IP
	link    string
	// Held while the address is taken or freed: one that is freed is not taken again by who still does the last round.
	changing sync.Mutex
}

// keep takes the address and tells the neighbours again and again, for those that missed it.
func (p *place) keep(ctx context.Context) {
	for {
		p.changing.Lock()
		if ctx.Err() == nil {
			if err := p.take(); err != nil {
				fmt.Fprintln(os.Stderr, "hagane-vip:", err)
			}
		}
		p.changing.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(announcements):
		}
	}
}

func (p *place) take() error {
	if err := p.ip("replace"); err != nil {
		return err
	}
	return p.announce()
}

func (p *place) free() error {
	link, err := net.InterfaceByName(p.link)
	if err != nil {
		return fmt.Errorf("failed to find interface %s: %w", p.link, err)
	}
	addresses, err := link.Addrs()
	if err != nil {
		return fmt.Errorf("failed to list the addresses of %s: %w", p.link, err)
	}
	for _, found := range addresses {
		if network, ok := found.(*net.IPNet); ok && network.IP.Equal(p.address) {
			return p.ip("delete")
		}
	}
	return nil
}

func (p *place) ip(action string) error {
	output, err := exec.Command("ip", "address", action, p.address.String()+"/32", "dev", p.link).CombinedOutput()
	if err != nil {
		return fmt.Errorf("failed to %s %s on %s: %s", action, p.address, p.link, strings.TrimSpace(string(output)))
	}
	return nil
}
