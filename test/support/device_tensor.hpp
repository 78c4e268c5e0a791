#pragma once
/// A host tensor's twin in device memory: same shape, strides and padding.

#include <cstring>
#include <vector>

#include "support/device_buffer.hpp"
#include "support/host_tensor.hpp"

namespace sparge::test {

template <class T>
class DeviceTensor {
public:
  /// Uploads `host`, padding included.
  explicit DeviceTensor(HostTensor<T> const& host) : host_(host), buffer_(host.storage()) {}

  /// Poisoned, for an output. Always: initcheck does not see what the copy engine writes, and would report its download.
  DeviceTensor(Shape const& shape, Shape const& stride)
      : host_(shape, stride), buffer_(static_cast<std::int64_t>(host_.storage().size())) {
    buffer_.fill_bytes(GuardedMemory::poison_byte);
  }
  explicit DeviceTensor(Shape const& shape, Layout layout = Layout::bhnd)
      : DeviceTensor(shape, strides_of(layout, shape)) {}

  TensorView<T> view() const { return host_.view_of(buffer_.data()); }
  DeviceBuffer<T>& buffer() { return buffer_; }
  DeviceBuffer<T> const& buffer() const { return buffer_; }

  void upload(HostTensor<T> const& host) { buffer_.upload(host.storage()); }

  /// A host copy, padding included.
  HostTensor<T> download() const {
    HostTensor<T> host = host_;
    host.storage() = buffer_.download();
    return host;
  }

private:
  HostTensor<T> host_;  // for its shape and strides
  DeviceBuffer<T> buffer_;
};

/// The elements in logical order, without padding: equal bytes for equal tensors whatever their layout.
template <class T>
std::vector<std::uint16_t> element_bits(HostTensor<T> const& tensor) {
  static_assert(sizeof(T) == sizeof(std::uint16_t));
  std::vector<std::uint16_t> bits;
  bits.reserve(static_cast<std::size_t>(tensor.elements()));
  tensor.for_each_index([&](auto... index) {
    std::uint16_t word;
    std::memcpy(&word, &tensor.at(index...), sizeof(word));
    bits.push_back(word);
  });
  return bits;
}

/// Whether every byte between the elements is still poison.
template <class T>
bool padding_is_poison(HostTensor<T> const& tensor) {
  HostTensor<T> copy = tensor;
  copy.for_each_index([&](auto... index) {
    std::memset(static_cast<void*>(&copy.at(index...)), GuardedMemory::poison_byte, sizeof(T));
  });
  std::vector<T> const& storage = copy.storage();
  std::vector<unsigned char> bytes(storage.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), storage.data(), bytes.size());
  for (unsigned char byte : bytes)
    if (byte != GuardedMemory::poison_byte) return false;
  return true;
}

}  // namespace sparge::test
