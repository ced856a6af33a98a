package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"syscall"
	"time"
)

const (
	protocolARP = 0x0806
	request     = 1
	reply       = 2
	frameLength = 42
)

var everybody = net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// announce tells all neighbours that the address is here.
func (p *place) announce() error {
	socket, link, err := p.open()
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	return p.send(socket, link, frame(reply, link.HardwareAddr, p.address, everybody, p.address))
}

// probe asks whose the address is; nobody should answer.
func (p *place) probe() error {
	socket, link, err := p.open()
	if err != nil {
		return err
	}
	defer syscall.Close(socket)
	deadline := time.Now().Add(probeTime)
	wait := syscall.NsecToTimeval((200 * time.Millisecond).Nanoseconds())
	if err := syscall.SetsockoptTimeval(socket, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &wait); err != nil {
		return fmt.Errorf("failed to set a socket up: %w", err)
	}
	buffer := make([]byte, 1500)
	var asked time.Time
	for time.Now().Before(deadline) {
		if time.Since(asked) > probeTime/3 {
			asked = time.Now()
			question := frame(request, link.HardwareAddr, net.IPv4zero.To4(), make(net.HardwareAddr, 6), p.address)
			if err := p.send(socket, link, question); err != nil {
				return err
			}
		}
		read, _, err := syscall.Recvfrom(socket, buffer, 0)
		if err != nil || read < frameLength {
			continue
		}
		sender, address := net.HardwareAddr(buffer[22:28]), net.IP(buffer[28:32])
		if address.Equal(p.address) && !bytes.Equal(sender, link.HardwareAddr) {
			return fmt.Errorf("%s belongs to the host with the hardware address %s", p.address, sender)
		}
	}
	return nil
}

func (p *place) open() (int, *net.Interface, error) {
	link, err := net.InterfaceByName(p.link)
	if err != nil {
		return 0, nil, fmt.Errorf("failed to find interface %s: %w", p.link, err)
	}
	if len(link.HardwareAddr) != 6 {
		return 0, nil, fmt.Errorf("interface %s has no hardware address", p.link)
	}
	socket, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, int(networkOrder(protocolARP)))
	if err != nil {
		return 0, nil, fmt.Errorf("failed to open a socket: %w", err)
	}
	target := &syscall.SockaddrLinklayer{Protocol: networkOrder(protocolARP), Ifindex: link.Index}
	if err := syscall.Bind(socket, target); err != nil {
		syscall.Close(socket)
		return 0, nil, fmt.Errorf("failed to bind a socket to %s: %w", p.link, err)
	}
	return socket, link, nil
}

func (p *place) send(socket int, link *net.Interface, content []byte) error {
	target := &syscall.SockaddrLinklayer{Protocol: networkOrder(protocolARP), Ifindex: link.Index, Halen: 6}
	copy(target.Addr[:], everybody)
	if err := syscall.Sendto(socket, content, 0, target); err != nil {
		return fmt.Errorf("failed to send on %s: %w", p.link, err)
	}
	return nil
}

// frame is an Ethernet frame to everybody with an ARP packet.
func frame(operation uint16, sender net.HardwareAddr, senderAddress net.IP, target net.HardwareAddr, targetAddress net.IP) []byte {
	content := make([]byte, 0, frameLength)
	content = append(content, everybody...)
	content = append(content, sender...)
	content = binary.BigEndian.AppendUint16(content, protocolARP)
	content = append(content, 0, 1, 8, 0, 6, 4)
	content = binary.BigEndian.AppendUint16(content, operation)
	content = append(content, sender...)
	content = append(content, senderAddress...)
	content = append(content, target...)
	return append(content, targetAddress...)
}

func networkOrder(value uint16) uint16 {
	var bytes [2]byte
	binary.BigEndian.PutUint16(bytes[:], value)
	return binary.NativeEndian.Uint16(bytes[:])
}
