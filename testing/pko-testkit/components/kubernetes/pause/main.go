// The program of our test images. Without arguments it holds a pod together, as Kubernetes' own pause does: it waits, and
// reaps what has lost its parent. With arguments it tries from inside a pod what pods rely on:
//
//	pause lookup NAME              print the addresses of a name
//	pause connect HOST:PORT        open a connection
//	pause serve ADDRESS TEXT       say a text to whoever connects
//	pause read HOST:PORT           print what a server says
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sort"
	"strings"
	"syscall"
	"time"
)

const patience = 5 * time.Second

func wait() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGCHLD, syscall.SIGINT, syscall.SIGTERM)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if child, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); child <= 0 {
				break
			}
		}
	}
}

func lookup(name string) error {
	within, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(within, name)
	if err != nil {
		return err
	}
	sort.Strings(addresses)
	fmt.Println(strings.Join(addresses, " "))
	return nil
}

func connect(address string) (net.Conn, error) {
	return net.DialTimeout("tcp", address, patience)
}

func serve(address, text string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				continue
			}
			io.WriteString(connection, text+"\n")
			connection.Close()
		}
	}()
	wait()
	return nil
}

func read(address string) error {
	connection, err := connect(address)
	if err != nil {
		return err
	}
	connection.SetDeadline(time.Now().Add(patience))
	_, err = io.Copy(os.Stdout, connection)
	return err
}

func try(arguments []string) error {
	switch {
	case len(arguments) == 0:
		wait()
		return nil
	case arguments[0] == "lookup" && len(arguments) == 2:
		return lookup(arguments[1])
	case arguments[0] == "connect" && len(arguments) == 2:
		_, err := connect(arguments[1])
		return err
	case arguments[0] == "serve" && len(arguments) == 3:
		return serve(arguments[1], arguments[2])
	case arguments[0] == "read" && len(arguments) == 2:
		return read(arguments[1])
	}
	return fmt.Errorf("unknown arguments %q", arguments)
}

func main() {
	if err := try(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
