/* Stands in for PF_KEY (RFC 2367) in kernels without it, as a preloaded library. A PF_KEY socket is a datagram socket that
 * is connected to itself, so that each request is there as its own confirmation as soon as it is written. No ESP exists: a
 * daemon can do IKE only. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/pfkeyv2.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef IP_IPSEC_POLICY
#define IP_IPSEC_POLICY 16
#endif
#ifndef UDP_ENCAP
#define UDP_ENCAP 100
#endif
#define UNIT 8 /* bytes of a length in PF_KEY's headers */
#define FIRST_SPI 0x1000

int socket(int domain, int type, int protocol)
{
	int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
	struct sockaddr_un own = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(own);
	int pf_key, problem;

	if (domain != AF_KEY)
		return next(domain, type, protocol);
	pf_key = next(AF_UNIX, SOCK_DGRAM | (type & (SOCK_CLOEXEC | SOCK_NONBLOCK)), 0);
	if (pf_key < 0)
		return -1;
	if (bind(pf_key, (struct sockaddr *)&own, sizeof(own.sun_family)) == 0 && /* an abstract name of the kernel's choice */
	    getsockname(pf_key, (struct sockaddr *)&own, &size) == 0 && connect(pf_key, (struct sockaddr *)&own, size) == 0)
		return pf_key;
	problem = errno;
	close(pf_key);
	errno = problem;
	return -1;
}

/* The only datagram sockets of AF_UNIX that carry PF_KEY's header. */
static int is_pf_key(int descriptor, const struct iovec *parts, int count)
{
	int domain = 0, type = 0;
	socklen_t size = sizeof(int);

	return count > 0 && parts[0].iov_len == sizeof(struct sadb_msg) &&
	       ((struct sadb_msg *)parts[0].iov_base)->sadb_msg_version == PF_KEY_V2 &&
	       getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
	       getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_DGRAM;
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
	ssize_t (*next)(int, const struct iovec *, int) =
	    (ssize_t (*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
	static uint32_t spis;
	struct {
		struct sadb_msg header;
		struct sadb_sa sa;
	} answer;
	struct iovec part = {&answer, sizeof(answer.header)};
	ssize_t size = 0;
	int i;

	if (!is_pf_key(descriptor, parts, count))
		return next(descriptor, parts, count);
	memset(&answer, 0, sizeof(answer));
	answer.header = *(struct sadb_msg *)parts[0].iov_base;
	if (answer.header.sadb_msg_type == SADB_GETSPI) {
		answer.sa.sadb_sa_len = sizeof(answer.sa) / UNIT;
		answer.sa.sadb_sa_exttype = SADB_EXT_SA;
		answer.sa.sadb_sa_spi = htonl(FIRST_SPI + ((uint32_t)getpid() << 8) + spis++);
		part.iov_len = sizeof(answer);
	} else if (answer.header.sadb_msg_type == SADB_GET) {
		answer.header.sadb_msg_errno = ESRCH; /* when an SA was used is not known */
	}
	answer.header.sadb_msg_len = part.iov_len / UNIT;
	if (next(descriptor, &part, 1) < 0)
		return -1;
	for (i = 0; i < count; i++)
		size += parts[i].iov_len;
	return size;
}

/* IKE packets bypass IPsec, and ESP in UDP is decapsulated: nothing to do without IPsec. */
int setsockopt(int descriptor, int level, int name, const void *value, socklen_t size)
{
	int (*next)(int, int, int, const void *, socklen_t) =
	    (int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");

	if ((level == IPPROTO_IP && name == IP_IPSEC_POLICY) || (level == IPPROTO_IPV6 && name == IPV6_IPSEC_POLICY) ||
	    (level == IPPROTO_UDP && name == UDP_ENCAP))
		return 0;
	return next(descriptor, level, name, value, size);
}
