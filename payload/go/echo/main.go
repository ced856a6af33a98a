// Command echo is a pod for trying a cluster out: it answers HTTP with who it is, and fetches a URL from inside.
//
//	echo serve [ADDRESS]        answers every request with the host name, the pod's addresses and the caller's
//	echo get URL [SECONDS]      prints the body; tries again until the time is over
//	echo resolve NAME [SECONDS] prints the addresses of a name
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	arguments := os.Args[1:]
	if len(arguments) == 0 {
		arguments = []string{"serve"}
	}
	var err error
	switch {
	case arguments[0] == "serve":
		err = serve(argument(arguments, 1, ":8080"))
	case arguments[0] == "get" && len(arguments) > 1:
		err = repeat(argument(arguments, 2, "10"), func(limit context.Context) error { return get(limit, arguments[1]) })
	case arguments[0] == "resolve" && len(arguments) > 1:
		err = repeat(argument(arguments, 2, "10"), func(limit context.Context) error { return resolve(limit, arguments[1]) })
	default:
		err = fmt.Errorf("usage: echo serve [ADDRESS] | get URL [SECONDS] | resolve NAME [SECONDS]")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func argument(arguments []string, index int, otherwise string) string {
	if len(arguments) > index {
		return arguments[index]
	}
	return otherwise
}

func serve(address string) error {
	name, _ := os.Hostname()
	handler := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		fmt.Fprintf(writer, "host=%s addresses=%s caller=%s path=%s\n", name, strings.Join(addresses(), ","), request.RemoteAddr, request.URL.Path)
	})
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

func addresses() []string {
	var found []string
	interfaces, _ := net.InterfaceAddrs()
	for _, address := range interfaces {
		if network, ok := address.(*net.IPNet); ok && !network.IP.IsLoopback() && !network.IP.IsLinkLocalUnicast() {
			found = append(found, network.IP.String())
		}
	}
	return found
}

// repeat calls work until it succeeds or the seconds are over; each call may last two seconds.
func repeat(seconds string, work func(context.Context) error) error {
	limit, err := strconv.Atoi(seconds)
	if err != nil || limit < 1 || limit > 3600 {
		return fmt.Errorf("seconds: %q: a whole number from 1 to 3600 is needed", seconds)
	}
	end := time.Now().Add(time.Duration(limit) * time.Second)
	for {
		call, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err = work(call)
		cancel()
		if err == nil || time.Now().After(end) {
			return err
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func get(limit context.Context, url string) error {
	request, err := http.NewRequestWithContext(limit, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	_, err = io.Copy(os.Stdout, io.LimitReader(response.Body, 1<<20))
	return err
}

func resolve(limit context.Context, name string) error {
	found, err := net.DefaultResolver.LookupHost(limit, name)
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(found, "\n"))
	return nil
}
